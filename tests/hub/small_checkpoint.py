"""Writes safetensors files, also ones that are wrong on purpose."""

import json
import os
import pathlib

import numpy as np

_FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
#: Small checkpoints, and what Hugging Face computes with them; `make test-parity` has others.
CHECKPOINTS = pathlib.Path(os.environ.get("CHECKPOINTS") or _FIXTURES / "checkpoints")

_NAMES = {"float32": "F32", "float16": "F16", "float64": "F64", "int64": "I64", "uint16": "BF16"}


def entries_of(tensors):
    """Returns the entries of a header, and the bytes that they describe."""
    entries, content = {}, b""
    for name, values in tensors.items():
        values = np.ascontiguousarray(values)
        data = values.tobytes()
        entries[name] = {
            "dtype": _NAMES[values.dtype.name],
            "shape": list(values.shape),
            "data_offsets": [len(content), len(content) + len(data)],
        }
        content += data
    return entries, content


def write_safetensors(path, tensors, change=None, content_change=None):
    """Writes tensors to a file; the functions may change the header and the content."""
    entries, content = entries_of(tensors)
    if change is not None:
        entries = change(entries)
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    if content_change is not None:
        content = content_change(content)
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)


def write_checkpoint(directory, tensors, config=None, **changes):
    """Writes a directory with `config.json` and `model.safetensors`."""
    directory.mkdir(exist_ok=True, parents=True)
    (directory / "config.json").write_text(json.dumps(config or {"model_type": "none"}))
    write_safetensors(directory / "model.safetensors", tensors, **changes)
    return directory
