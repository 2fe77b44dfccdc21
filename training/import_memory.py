"""Measures the memory that the import of a large checkpoint needs.

    python training/import_memory.py [--gigabytes 1]

Writes a checkpoint of T5 with random weights in float32, loads its model and saves its weights in
another process, as an import does, and compares the highest resident memory of that process, and
of one that only imports the package, with the size of the checkpoint.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

_CODE = """
import resource, sys
from keras_transformer.hub import load_model
if sys.argv[1:]:
    load_model(sys.argv[1]).save_weights(sys.argv[1] + "/model.weights.h5")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def tensors_of(hidden: int, inner: int, layers: int, heads: int, words: int):
    """Yields the name and the shape of each tensor of a T5 model."""
    yield "shared.weight", (words, hidden)
    for side in ("encoder", "decoder"):
        for layer in range(layers):
            names = ["SelfAttention"] + ["EncDecAttention"] * (side == "decoder")
            for number, attention in enumerate([*names, "DenseReluDense"]):
                prefix = f"{side}.block.{layer}.layer.{number}"
                yield f"{prefix}.layer_norm.weight", (hidden,)
                if attention == "DenseReluDense":
                    yield f"{prefix}.{attention}.wi.weight", (inner, hidden)
                    yield f"{prefix}.{attention}.wo.weight", (hidden, inner)
                    continue
                for projection in "qkvo":
                    yield f"{prefix}.{attention}.{projection}.weight", (hidden, hidden)
                if layer == number == 0:
                    yield f"{prefix}.{attention}.relative_attention_bias.weight", (32, heads)
        yield f"{side}.final_layer_norm.weight", (hidden,)


def write_checkpoint(directory: pathlib.Path, gigabytes: float) -> int:
    """Writes the checkpoint and returns its size in bytes."""
    hidden, inner, heads, words = 1024, 4096, 16, 32_000
    per_layer = 4 * (2 * 4 * hidden**2 + 4 * hidden**2 + 4 * hidden * inner)
    layers = max(1, round((gigabytes * 2**30 - 4 * words * hidden) / per_layer))
    shapes = dict(tensors_of(hidden, inner, layers, heads, words))
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {
            "dtype": "F32",
            "shape": shape,
            "data_offsets": [offset, offset + size],
        }
        offset += size
    config = {
        "model_type": "t5",
        "d_model": hidden,
        "d_ff": inner,
        "d_kv": hidden // heads,
        "num_layers": layers,
        "num_heads": heads,
        "vocab_size": words,
    }
    (directory / "config.json").write_text(json.dumps(config))
    generator = np.random.default_rng(1)
    with (directory / "model.safetensors").open("wb") as file:
        content = json.dumps(header).encode()
        file.write(len(content).to_bytes(8, "little") + content)
        for shape in shapes.values():
            file.write(generator.standard_normal(shape, np.float32).tobytes())
    return offset


def memory_of(*arguments: str) -> int:
    """Returns the highest resident memory of a process, in bytes."""
    command = [sys.executable, "-c", _CODE, *arguments]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        size = write_checkpoint(pathlib.Path(directory), arguments.gigabytes)
        nothing, model = memory_of(), memory_of(directory)
    times, rest = model / size, (model - nothing) / size
    print(f"checkpoint {size / 1e9:.2f} GB, memory {model / 1e9:.2f} GB: {times:.2f} times")
    print(f"without a checkpoint {nothing / 1e9:.2f} GB; the rest {rest:.2f} times")


if __name__ == "__main__":
    main()
