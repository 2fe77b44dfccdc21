"""Training steps of `torch.nn.Transformer`, eager or compiled. Runs in `pytorch/`."""

import math

import common as c
import torch
from torch import nn
from torch.nn import functional

parser = c.training_options()
parser.add_argument("--compile", action="store_true", help="use torch.compile")
parser.add_argument("--dynamic", action="store_true", help="use torch.compile(dynamic=True)")
options = parser.parse_args()
torch.set_num_threads(c.THREADS)
torch.manual_seed(0)
wanted = c.wanted_model(options)


class Translator(nn.Module):
    """`nn.Transformer` with one table for source, target and logits."""

    def __init__(self):
        super().__init__()
        dim = wanted.hidden_dim
        self.embedding = nn.Embedding(wanted.vocabulary_size, dim, padding_idx=c.PADDING)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.register_buffer("positions", torch.from_numpy(c.sine_positions(64, dim)))
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(64))
        self.dropout = nn.Dropout(wanted.dropout)
        self.transformer = nn.Transformer(
            dim,
            wanted.num_heads,
            wanted.num_layers,
            wanted.num_layers,
            wanted.intermediate_dim,
            wanted.dropout,
            batch_first=True,
        )
        self.scale = math.sqrt(dim)

    def embed(self, ids):
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source, target):
        length = target.shape[1]
        # All masks are floats, because nn.Transformer wants them to be of one type.
        source_mask, target_mask = (
            torch.zeros(ids.shape).masked_fill_(ids == c.PADDING, float("-inf"))
            for ids in (source, target)
        )
        states = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=self.causal[:length, :length],
            src_key_padding_mask=source_mask,
            tgt_key_padding_mask=target_mask,
            memory_key_padding_mask=source_mask,
            tgt_is_causal=True,
        )
        return states @ self.embedding.weight.t()


model = Translator().train()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)


def compute_loss(source, target, labels):
    """Returns the mean cross-entropy of the labels, padding left out."""
    logits = model(source, target).view(-1, wanted.vocabulary_size)
    return functional.cross_entropy(logits, labels.view(-1), ignore_index=c.PADDING)


if options.compile:
    torch._dynamo.config.cache_size_limit = 64
    compute_loss = torch.compile(compute_loss, dynamic=options.dynamic)


def run(batches):
    for batch in batches:
        loss = compute_loss(*(torch.from_numpy(array).long() for array in batch))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()


way = "compile" + "-dynamic" * options.dynamic if options.compile else "eager"
c.measure_training(
    f"torch nn.Transformer {way}",
    options,
    run,
    params=sum(each.numel() for each in model.parameters()),
    version=torch.__version__,
)
