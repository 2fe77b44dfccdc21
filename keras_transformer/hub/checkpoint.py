"""Hugging Face checkpoints: directories with a config and tensors in safetensors files.

Nothing in the directory is trusted. JSON is read strictly, file names must be names in the
directory itself, and the header of each file of tensors is checked before a tensor is read. Pickle
files, which can run code, are never opened.
"""

import contextlib
import dataclasses
import importlib
import math
import os
import pathlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.export.damage import open_regular, read_bounded
from keras_transformer.export.strict_json import parse_json

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"

# A header takes about 100 bytes for each tensor.
_MAXIMUM_HEADER_BYTES = 32 << 20
_MAXIMUM_JSON_BYTES = 64 << 20
_MAXIMUM_TENSORS = 200_000

# Names of dtypes in safetensors, and the type in which NumPy reads them.
_DTYPES: dict[str, Any] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "u1",
}
_FLOATS = ("F64", "F32", "F16", "BF16")

_COPY_AGAIN = "Download or copy the directory again."
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")


class StoredTensor(NamedTuple):
    """The place of a stored tensor, from the checked header of its file."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # from the start of the file


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A directory with config, tensors and tokenizer files, whose structure has been checked.

    Tensors are read one at a time, so that a checkpoint is never in memory as a whole.

    Args:
        directory: The directory.
        config: Content of `config.json`.
        generation: Content of `generation_config.json`, or None.
        tensors: A `StoredTensor` for each tensor, by name.

    Example:

    ```python
    checkpoint = Checkpoint.open("opus-mt-en-de")
    checkpoint.tensors["model.shared.weight"].shape  # (58101, 512)
    checkpoint.read("model.shared.weight").dtype  # float32
    ```
    """

    directory: pathlib.Path
    config: Mapping[str, Any]
    generation: Mapping[str, Any] | None
    tensors: Mapping[str, StoredTensor]

    @classmethod
    def open(cls, directory: Path) -> "Checkpoint":
        """Returns the checkpoint in a directory, or raises a `UserError` if it is not valid.

        Args:
            directory: Directory with `config.json` and `model.safetensors`, or its shards with
                their index; or a GGUF file.
        """
        path = pathlib.Path(directory)
        if path.suffix == ".gguf" and not path.is_dir():
            gguf = importlib.import_module("keras_transformer.hub.gguf")
            return gguf.GGUFCheckpoint.open(path)
        if not path.is_dir():
            fix = "Give a directory with config.json and model.safetensors; nothing is downloaded."
            raise UserError("no such directory.", where=path, fix=fix)
        config = read_json(path, CONFIG)
        generation = (
            read_json(path, GENERATION_CONFIG) if has_file(path, GENERATION_CONFIG) else None
        )
        return cls(path, config, generation, _find_tensors(path))

    @property
    def files(self) -> frozenset[str]:
        """Returns the names of the files that config and tensors are read from."""
        return frozenset({CONFIG, *(stored.file for stored in self.tensors.values())})

    @contextlib.contextmanager
    def tokenizer_directory(self) -> Iterator[pathlib.Path]:
        """Gives the directory with the tokenizer's files."""
        yield self.directory

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor; one of floating-point numbers as float32, all of them finite.

        Args:
            name: Name of the tensor, a key of `tensors`.
        """
        stored = self.tensors[name]
        count = math.prod(stored.shape)
        with _open(self.directory, stored.file) as file:
            file.seek(stored.offset)
            values = np.fromfile(file, _DTYPES[stored.dtype], count)
        if values.size != count:
            raise _refused(self.directory, stored.file, f"ends within the tensor {name!r}")
        if stored.dtype == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        elif stored.dtype in _FLOATS:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32, copy=False)
        # Minimum and maximum are NaN if any value is NaN, and need no extra memory.
        is_finite = not count or (np.isfinite(values.min()) and np.isfinite(values.max()))
        if not is_finite:
            problem = f"the tensor {name!r} has values that are NaN or infinite"
            raise _refused(self.directory, stored.file, problem)
        return values.reshape(stored.shape)


def has_file(directory: pathlib.Path, name: str) -> bool:
    """Returns whether a directory has an entry of this name, of any type."""
    return os.path.lexists(directory / name)


def read_bytes(directory: pathlib.Path, name: str, maximum: int = _MAXIMUM_JSON_BYTES) -> bytes:
    """Returns the content of a file of a checkpoint.

    Args:
        directory: Directory of the checkpoint.
        name: Name of a file in the directory itself.
        maximum: Largest size that is read. Default 64 MiB.
    """
    _require_file(directory, name)
    return read_bounded(directory, name, maximum)


def read_json(directory: pathlib.Path, name: str) -> dict[str, Any]:
    """Returns the object in a JSON file of a checkpoint, read strictly.

    Args:
        directory: Directory of the checkpoint.
        name: Name of a file in the directory itself.
    """
    try:
        content = parse_json(read_bytes(directory, name))
    except UserError:
        raise
    except ValueError as error:
        raise _refused(directory, name, f"is not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise _refused(directory, name, "must have an object, {…}, at the top level")
    return content


def _find_tensors(directory: pathlib.Path) -> dict[str, StoredTensor]:
    if has_file(directory, INDEX):
        return _read_shards(directory)
    if has_file(directory, WEIGHTS):
        return _read_header(directory, WEIGHTS)
    pickles = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(_PICKLES))
    if pickles:
        name = "pytorch_model.bin" if "pytorch_model.bin" in pickles else pickles[0]
        raise UserError(
            f"{name} is not read: files of this format can run code when they are loaded. There is "
            f"no {WEIGHTS}.",
            where=directory,
            fix="If you trust the file, convert it in an environment with torch and transformers: "
            f"{conversion_command(directory)}",
        )
    raise UserError(f"{WEIGHTS} is missing.", where=directory, fix=_COPY_AGAIN)


def conversion_command(directory: pathlib.Path) -> str:
    """Returns the command that writes `model.safetensors` beside a `pytorch_model.bin`."""
    source, target = (str(directory / name) for name in ("pytorch_model.bin", WEIGHTS))
    code = (
        "import torch; from safetensors.torch import save_file; "
        f"tensors = torch.load({source!r}, map_location='cpu', weights_only=True); "
        f"save_file({{k: v.contiguous().clone() for k, v in tensors.items()}}, {target!r})"
    )
    return f"python -c {shlex.quote(code)}"


def _read_shards(directory: pathlib.Path) -> dict[str, StoredTensor]:
    files = read_json(directory, INDEX).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise _refused(directory, INDEX, "has no 'weight_map' from tensors to files")
    tensors: dict[str, StoredTensor] = {}
    for file in sorted(set(files.values())):
        if not re.fullmatch(r"[A-Za-z0-9_.-]+\.safetensors", file) or file.startswith("."):
            raise _refused(directory, INDEX, f"names {file!r}, which is not a shard name")
        if not has_file(directory, file):
            raise UserError(f"the shard {file} is missing.", where=directory, fix=_COPY_AGAIN)
        for name, stored in _read_header(directory, file).items():
            if files.get(name) != file:
                raise _refused(directory, file, f"has the tensor {name!r}, contrary to the index")
            tensors[name] = stored
    for name in files:
        if name not in tensors:
            raise _refused(directory, files[name], f"does not have the tensor {name!r}")
    return tensors


def _read_header(directory: pathlib.Path, name: str) -> dict[str, StoredTensor]:
    """Returns the tensors of a file; its header must describe all of its bytes."""
    with _open(directory, name) as file:
        size = os.fstat(file.fileno()).st_size
        header_size = int.from_bytes(file.read(8), "little")
        if size < 8 or header_size > min(size - 8, _MAXIMUM_HEADER_BYTES):
            problem = f"has a header of {header_size:,} bytes in a file of {size:,}"
            raise _refused(directory, name, problem)
        content = file.read(header_size)
    try:
        header = parse_json(content)
    except ValueError as error:
        raise _refused(directory, name, f"has a header that is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _refused(directory, name, "has a header that is not an object")
    header.pop("__metadata__", None)
    if len(header) > _MAXIMUM_TENSORS:
        raise _refused(directory, name, f"has more than {_MAXIMUM_TENSORS:,} tensors")
    start = 8 + header_size
    tensors = {
        tensor: _check_entry(directory, name, tensor, entry) for tensor, entry in header.items()
    }
    # Without gaps and overlaps: every byte belongs to one tensor.
    end = 0
    for begin, stop, tensor in sorted((*span, tensor) for tensor, (_, span) in tensors.items()):
        if begin != end:
            raise _refused(directory, name, f"has a gap or an overlap before {tensor!r}")
        end = stop
    if start + end != size:
        raise _refused(directory, name, f"has {size - start:,} bytes of data, not {end:,}")
    return {
        tensor: stored._replace(offset=start + span[0])
        for tensor, (stored, span) in tensors.items()
    }


def _check_entry(
    directory: pathlib.Path, file: str, tensor: str, entry: Any
) -> tuple[StoredTensor, tuple[int, int]]:
    """Returns a tensor of a header, and where its bytes begin and end."""
    keys = ("dtype", "shape", "data_offsets")
    if not isinstance(entry, dict) or entry.keys() != set(keys):
        raise _refused(directory, file, f"does not give the {', '.join(keys)} of {tensor!r}")
    dtype, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        problem = f"has the tensor {tensor!r} in {dtype!r}, which is not supported"
        raise _refused(directory, file, problem, "Convert it to float32 or bfloat16.")
    if not (_are_sizes(shape) and _are_sizes(span) and len(span) == 2 and len(shape) <= 8):
        raise _refused(directory, file, f"has an invalid shape or offsets for {tensor!r}")
    # Python's integers do not overflow.
    expected = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
    if span[1] - span[0] != expected:
        problem = f"has {span[1] - span[0]:,} bytes for the tensor {tensor!r}, not {expected:,}"
        raise _refused(directory, file, problem)
    return StoredTensor(file, dtype, tuple(shape), 0), (span[0], span[1])


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(each) is int and each >= 0 for each in values)


def _require_file(directory: pathlib.Path, name: str) -> None:
    path = directory / name
    if path.is_symlink():
        raise UserError(
            f"{name}: a symbolic link, which could point outside the directory.",
            where=directory,
            fix="Copy the directory with the files that its links point to, cp -rL, and import it.",
        )
    if not os.path.lexists(path):
        raise UserError(f"{name} is missing.", where=directory, fix=_COPY_AGAIN)


def _open(directory: pathlib.Path, name: str) -> Any:
    _require_file(directory, name)
    return open_regular(directory, name)


def _refused(
    directory: pathlib.Path, name: str, problem: str, fix: str | None = _COPY_AGAIN
) -> UserError:
    return UserError(f"{problem}.", where=directory / name, fix=fix)


def unused_of(names: Iterable[str], most: int = 5) -> str:
    """Returns a few names as one text, and how many more there are."""
    listed = sorted(names)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
