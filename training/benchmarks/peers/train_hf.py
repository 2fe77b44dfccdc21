"""Training steps of MarianMT (Hugging Face transformers), eager or compiled. Runs in `pytorch/`."""

import common as c
import torch
import transformers
from marian import build
from torch.nn import functional

parser = c.training_options()
parser.add_argument("--compile", action="store_true", help="use torch.compile")
options = parser.parse_args()
model = build(options.config).train()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)


def compute_loss(source, mask, target, labels):
    """Returns the mean cross-entropy of the labels, padding left out."""
    logits = model(
        input_ids=source,
        attention_mask=mask,
        decoder_input_ids=target,
        decoder_attention_mask=(target != c.PADDING).long(),
        use_cache=False,
    ).logits
    logits = logits.view(-1, c.VOCABULARY_SIZE)
    return functional.cross_entropy(logits, labels.view(-1), ignore_index=c.PADDING)


if options.compile:
    torch._dynamo.config.cache_size_limit = 64
    compute_loss = torch.compile(compute_loss, dynamic=False)


def run(batches):
    for batch in batches:
        source, target, labels = (torch.from_numpy(array).long() for array in batch)
        loss = compute_loss(source, (source != c.PADDING).long(), target, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()


c.measure_training(
    "HF MarianMT" + (" compile" if options.compile else ""),
    options,
    run,
    params=sum(each.numel() for each in model.parameters()),
    attn=model.config._attn_implementation,
    version=transformers.__version__,
)
