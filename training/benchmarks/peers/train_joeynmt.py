"""Training steps of JoeyNMT, with its model and its loss. Runs in `joeynmt/`."""

from types import SimpleNamespace

import common as c
import joeynmt
import torch
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary

options = c.training_options().parse_args()
torch.set_num_threads(c.THREADS)
torch.manual_seed(0)
wanted = c.wanted_model(options)
# JoeyNMT wants the unknown token first, so that the ids 0 and 1 are exchanged.
UNKNOWN, PADDING = 0, 1
to_joeynmt = torch.arange(wanted.vocabulary_size)
to_joeynmt[[c.PADDING, c.UNKNOWN]] = torch.tensor([PADDING, UNKNOWN])
special = SimpleNamespace(
    unk_token="<unk>",
    pad_token="<pad>",
    bos_token="<s>",
    eos_token="</s>",
    sep_token=None,
    unk_id=UNKNOWN,
    pad_id=PADDING,
    bos_id=c.START,
    eos_id=c.END,
    sep_id=None,
    lang_tags=[],
)
tokens = ["<unk>", "<pad>", "<s>", "</s>"]
tokens += [f"t{number}" for number in range(len(tokens), wanted.vocabulary_size)]
vocabulary = Vocabulary(tokens, special)
side = {
    "type": "transformer",
    "num_layers": wanted.num_layers,
    "num_heads": wanted.num_heads,
    "hidden_size": wanted.hidden_dim,
    "ff_size": wanted.intermediate_dim,
    "dropout": wanted.dropout,
    "layer_norm": "post",
    "embeddings": {
        "embedding_dim": wanted.hidden_dim,
        "scale": True,
        "dropout": wanted.dropout,
    },
}
settings = {
    "initializer": "xavier_uniform",
    "embed_initializer": "xavier_uniform",
    "init_gain": 1.0,
    "bias_initializer": "zeros",
    "tied_embeddings": True,
    "tied_softmax": True,
    "encoder": dict(side),
    "decoder": dict(side),
}
model = build_model(settings, vocabulary, vocabulary)
model.loss_function = ("crossentropy", 0.0)
model.train()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)


def run(batches):
    for batch in batches:
        source, target, labels = (to_joeynmt[torch.from_numpy(array).long()] for array in batch)
        loss = model(
            return_type="loss",
            src=source,
            src_length=(source != PADDING).sum(1),
            src_mask=(source != PADDING)[:, None],
            trg_input=target,
            trg=labels,
            trg_mask=(labels != PADDING)[:, None],
        )[0]
        loss = loss / (labels != PADDING).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()


c.measure_training(
    "JoeyNMT",
    options,
    run,
    params=sum(each.numel() for each in model.parameters()),
    version=joeynmt.__version__,
)
