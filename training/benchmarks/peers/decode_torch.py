"""Decoding written by hand in PyTorch, as fast as plain PyTorch allows. Runs in `pytorch/`.

Queries, keys and values are one product, keys and values are cached, attention is PyTorch's fused
one, and greedy search takes finished sentences out of the batch.
"""

import math

import common as c
import torch
from torch.nn import functional

options = c.decoding_options().parse_args()
torch.set_num_threads(c.THREADS)
wanted = c.wanted_model(options)
num_heads, dim, num_layers = wanted.num_heads, wanted.hidden_dim, wanted.num_layers
weights = {name: torch.from_numpy(array) for name, array in c.load_reference(options).items()}
table = weights["model.shared.weight"]


def linear(*names):
    return tuple(
        torch.cat([weights[f"{name}.{part}"] for name in names]) for part in ("weight", "bias")
    )


def projections(attention):
    """Returns the names of an attention layer's four projections."""
    return [f"{attention}.{part}_proj" for part in ("q", "k", "v", "out")]


def read_block(prefix, has_cross):
    query, key, value, output = projections(f"{prefix}.self_attn")
    block = {
        "self_in": linear(query, key, value),
        "self_out": linear(output),
        "self_norm": linear(f"{prefix}.self_attn_layer_norm"),
        "inner": linear(f"{prefix}.fc1"),
        "outer": linear(f"{prefix}.fc2"),
        "norm": linear(f"{prefix}.final_layer_norm"),
    }
    if has_cross:
        query, key, value, output = projections(f"{prefix}.encoder_attn")
        block["cross_query"] = linear(query)
        block["cross_memory"] = linear(key, value)
        block["cross_out"] = linear(output)
        block["cross_norm"] = linear(f"{prefix}.encoder_attn_layer_norm")
    return block


encoder = [read_block(f"model.encoder.layers.{number}", False) for number in range(num_layers)]
decoder = [read_block(f"model.decoder.layers.{number}", True) for number in range(num_layers)]
source_positions = weights["model.encoder.embed_positions.weight"]
target_positions = weights["model.decoder.embed_positions.weight"]
scale = math.sqrt(dim)


def normalize(states, norm):
    return functional.layer_norm(states, (dim,), *norm)


def split(states):
    return states.view(*states.shape[:2], num_heads, dim // num_heads).transpose(1, 2)


def project(states, weight, parts):
    return [split(part) for part in functional.linear(states, *weight).chunk(parts, -1)]


def attend(query, key, value, mask, weight):
    attended = functional.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)
    return functional.linear(attended.reshape(len(attended), -1, dim), *weight)


def feed_forward(states, block):
    inner = torch.relu(functional.linear(states, *block["inner"]))
    return normalize(states + functional.linear(inner, *block["outer"]), block["norm"])


def encode(source):
    """Returns the keys and values of cross-attention in each block, and the mask."""
    mask = (source != c.PADDING)[:, None, None, :]
    states = table[source] * scale + source_positions[: source.shape[1]]
    for block in encoder:
        query, key, value = project(states, block["self_in"], 3)
        attended = attend(query, key, value, mask, block["self_out"])
        states = feed_forward(normalize(states + attended, block["self_norm"]), block)
    return [project(states, block["cross_memory"], 2) for block in decoder], mask


def step(tokens, position, cache, cross, mask):
    """Returns the logits after one more token, and extends the cache."""
    states = (table[tokens] * scale + target_positions[position])[:, None]
    for number, block in enumerate(decoder):
        query, key, value = project(states, block["self_in"], 3)
        if cache[number] is not None:
            key = torch.cat([cache[number][0], key], 2)
            value = torch.cat([cache[number][1], value], 2)
        cache[number] = (key, value)
        attended = attend(query, key, value, None, block["self_out"])
        states = normalize(states + attended, block["self_norm"])
        (query,) = project(states, block["cross_query"], 1)
        attended = attend(query, *cross[number], mask, block["cross_out"])
        states = feed_forward(normalize(states + attended, block["cross_norm"]), block)
    logits = states[:, 0] @ table.t()
    if c.FORCED_LENGTH:
        logits[:, c.END] = -1e9
    return logits


def greedy_search(source):
    cross, mask = encode(source)
    rows = len(source)
    alive, found = torch.arange(rows), [[] for _ in range(rows)]
    tokens, cache = torch.full((rows,), c.START), [None] * num_layers
    for position in range(c.MAX_LENGTH):
        tokens = step(tokens, position, cache, cross, mask).argmax(-1)
        goes_on = tokens != c.END
        for row, token in zip(alive.tolist(), tokens.tolist(), strict=True):
            if token != c.END:
                found[row].append(token)
        if not goes_on.all():
            if not goes_on.any():
                break
            tokens, alive, mask = tokens[goes_on], alive[goes_on], mask[goes_on]
            cache = [(key[goes_on], value[goes_on]) for key, value in cache]
            cross = [(key[goes_on], value[goes_on]) for key, value in cross]
    return found


def beam_search(source, beams):
    cross, mask = encode(source)
    rows = len(source)
    cross = [[part.repeat_interleave(beams, 0) for part in block] for block in cross]
    mask = mask.repeat_interleave(beams, 0)
    scores = torch.full((rows, beams), -1e9)
    scores[:, 0] = 0
    hypotheses = torch.full((rows, beams, 1), c.START)
    finished = [[] for _ in range(rows)]  # (length-normalized score, ids)
    is_closed = torch.zeros(rows, dtype=torch.bool)
    cache, base = [None] * num_layers, torch.arange(rows)[:, None] * beams
    for position in range(c.MAX_LENGTH):
        logits = step(hypotheses[:, :, -1].reshape(-1), position, cache, cross, mask)
        log_probabilities = logits.log_softmax(-1).view(rows, beams, -1)
        size = log_probabilities.shape[-1]
        best, chosen = (scores[..., None] + log_probabilities).view(rows, -1).topk(2 * beams, -1)
        parents, tokens = chosen // size, chosen % size
        is_end = tokens == c.END
        for row, place in (is_end[:, :beams] & ~is_closed[:, None]).nonzero().tolist():
            score = best[row, place].item() / (position + 1)
            finished[row].append((score, hypotheses[row, parents[row, place], 1:].tolist()))
        scores, kept = best.masked_fill(is_end, -1e9).topk(beams, -1)
        parents, tokens = parents.gather(1, kept), tokens.gather(1, kept)
        order = (base + parents).view(-1)
        hypotheses = hypotheses.view(rows * beams, -1)[order].view(rows, beams, -1)
        hypotheses = torch.cat([hypotheses, tokens[..., None]], -1)
        cache = [(key[order], value[order]) for key, value in cache]
        is_closed = torch.tensor([len(each) >= beams for each in finished])
        if is_closed.all():
            break
    return [
        max(each)[1] if each else hypotheses[row, 0, 1:].tolist()
        for row, each in enumerate(finished)
    ]


@torch.inference_mode()
def translate(rows):
    source = torch.from_numpy(c.pad(rows, max(map(len, rows)))).long()
    return greedy_search(source) if options.beams == 1 else beam_search(source, options.beams)


c.measure_decoding("torch, written by hand", options, translate, version=torch.__version__)
