"""Checkpoints in GGUF files, the format of llama.cpp.

A GGUF file holds metadata, a tokenizer and tensors, most of them quantized. Nothing in it is
trusted: lengths and offsets are checked before anything is read. Tensors that are quantized are
decoded by the package gguf.
"""

import contextlib
import dataclasses
import importlib
import math
import os
import pathlib
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.export.damage import open_regular
from keras_transformer.hub.checkpoint import Checkpoint, StoredTensor
from keras_transformer.hub.gguf_tokenizer import write_tokenizer

# Metadata with a vocabulary of 256,000 tokens and as many merges takes about 15 MB.
_MAXIMUM_METADATA = 128 << 20
_MAXIMUM_ENTRIES = 100_000
_LARGEST_ALIGNMENT = 1 << 16

# Types of metadata by number; 8 is text and 9 a list.
_SCALARS: dict[int, str] = dict(
    zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True)
)
_TEXT, _LIST = 8, 9
# Types of tensors by number: name, values in a block, bytes of a block.
_PLAIN: dict[int, tuple[str, int, int]] = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2)}
_QUANTIZED: dict[int, tuple[str, int, int]] = {
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
}

# Keys of metadata, after the name of the architecture, and those of Hugging Face.
_KEYS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "rope.freq_base": "rope_theta",
}
# Names of tensors, and those of Hugging Face.
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
#: Supported architectures, all of them with the layers of Llama.
ARCHITECTURES = ("llama", "qwen2", "qwen3")


@dataclasses.dataclass(frozen=True)
class GGUFCheckpoint(Checkpoint):
    """A GGUF file of a language model, with config and names of tensors as Hugging Face has them.

    Args:
        directory: Directory of the file.
        config: The config that follows from the metadata.
        generation: None: a GGUF file has no generation defaults.
        tensors: A `StoredTensor` for each tensor, by Hugging Face's name.
        metadata: The metadata of the file, the tokenizer's included.

    Example:

    ```python
    checkpoint = Checkpoint.open("SmolLM2-135M-Instruct.Q4_1.gguf")
    checkpoint.config["num_hidden_layers"]  # 30
    ```
    """

    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def open(cls, directory: Path) -> "GGUFCheckpoint":
        """Returns the checkpoint in a file, or raises a `UserError` if it is not valid.

        Args:
            directory: The path of the file.
        """
        path = pathlib.Path(directory)
        if path.is_symlink():
            raise UserError("a symbolic link, which could point anywhere.", where=path)
        with open_regular(path.parent, path.name) as file:
            size = os.fstat(file.fileno()).st_size
            reader = _Reader(file.read(_MAXIMUM_METADATA), path)
        metadata, found = reader.header(size)
        stored: dict[str, StoredTensor] = {}
        for name, tensor in found.items():
            translated = _translate(name)
            if translated in stored:
                raise reader.refuse(f"has two tensors {translated!r}")
            stored[translated] = tensor._replace(file=path.name)
        config = _config(metadata, stored, reader)
        return cls(path.parent, config, None, stored, metadata)

    @contextlib.contextmanager
    def tokenizer_directory(self) -> Iterator[pathlib.Path]:
        file = self.directory / next(iter(self.files))
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory)
            write_tokenizer(self.metadata, path, file)
            try:
                yield path
            except UserError as error:  # it would name the temporary directory
                raise error.moved(file) from error

    @property
    def files(self) -> frozenset[str]:
        return frozenset(stored.file for stored in self.tensors.values())

    def read(self, name: str) -> np.ndarray:
        stored = self.tensors[name]
        count = math.prod(stored.shape)
        _, block, size = _of_name(stored.dtype)
        with open_regular(self.directory, stored.file) as file:
            file.seek(stored.offset)
            data = np.fromfile(file, np.uint8, count // block * size)
        if data.size != count // block * size:
            raise UserError(f"ends within the tensor {name!r}.", where=self.directory / stored.file)
        values = _decode(data, stored.dtype).reshape(stored.shape)
        if count and not (np.isfinite(values.min()) and np.isfinite(values.max())):
            problem = f"the tensor {name!r} has values that are NaN or infinite."
            raise UserError(problem, where=self.directory / stored.file)
        if self.config["model_type"] == "llama":
            for projection, heads in (("q", "num_attention_heads"), ("k", "num_key_value_heads")):
                if f".{projection}_proj." in name:
                    values = _half_layout(values, self.config[heads])
        return values


def _half_layout(values: np.ndarray, num_heads: int) -> np.ndarray:
    """Returns rows of a projection whose rotated pairs are neighbors in the layout with halves."""
    pairs = values.reshape(num_heads, -1, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)


def _decode(data: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the bytes of a tensor as float32."""
    if dtype == "F32":
        return data.view("<f4")
    if dtype == "F16":
        return data.view("<f2").astype(np.float32)
    if dtype == "BF16":  # the upper half of a float32
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    try:
        gguf = importlib.import_module("gguf")
    except ImportError as error:
        fix = "Install it: pip install 'keras-transformer-tf[gguf]'"
        raise UserError(f"Tensors of type {dtype} need the package gguf.", fix=fix) from error
    kind = getattr(gguf.GGMLQuantizationType, dtype)
    return gguf.quants.dequantize(data, kind).astype(np.float32, copy=False)


def _of_name(dtype: str) -> tuple[str, int, int]:
    return next(kind for kind in (_PLAIN | _QUANTIZED).values() if kind[0] == dtype)


class _Reader:
    """Reader of the header of a GGUF file, which checks every length before using it."""

    def __init__(self, data: bytes, path: pathlib.Path) -> None:
        self.data, self.path, self.position = data, path, 0

    def refuse(self, problem: str) -> UserError:
        return UserError(f"{problem}.", where=self.path, fix="Download or copy the file again.")

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.data):
            raise self.refuse("ends within its metadata, or has too much metadata")
        taken, self.position = self.data[self.position : end], end
        return taken

    def scalar(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def text(self) -> str:
        try:
            return self.take(self.scalar("Q")).decode()
        except UnicodeDecodeError as error:
            raise self.refuse("has a text that is not UTF-8") from error

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind != _LIST:
            raise self.refuse(f"has metadata of the unknown type {kind}")
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind in _SCALARS:
            form = f"<{_SCALARS[kind]}"
            values = self.take(count * struct.calcsize(form))
            return [each[0] for each in struct.iter_unpack(form, values)]
        if kind != _TEXT or count > len(self.data):
            raise self.refuse(f"has a list of {count:,} values of type {kind}")
        return [self.text() for _ in range(count)]

    def header(self, size: int) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
        """Returns the metadata and the tensors of a file of `size` bytes."""
        if self.data[:4] != b"GGUF":
            raise UserError("not a GGUF file: it does not begin with GGUF.", where=self.path)
        self.position = 4
        if (version := self.scalar("I")) not in (2, 3):
            raise self.refuse(f"has the version {version}; 2 and 3 are read")
        tensor_count, value_count = self.scalar("Q"), self.scalar("Q")
        if max(tensor_count, value_count) > _MAXIMUM_ENTRIES:
            raise self.refuse(f"has {tensor_count:,} tensors and {value_count:,} values")
        metadata: dict[str, Any] = {}
        for _ in range(value_count):
            key = self.text()
            if key in metadata:
                raise self.refuse(f"has two values of {key!r}")
            metadata[key] = self.value(self.scalar("I"))
        tensors: dict[str, StoredTensor] = {}
        for _ in range(tensor_count):
            name, tensor = self.tensor()
            if name in tensors:
                raise self.refuse(f"has two tensors {name!r}")
            tensors[name] = tensor
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= _LARGEST_ALIGNMENT:
            raise self.refuse(f"has the alignment {alignment!r}")
        start = -(-self.position // alignment) * alignment
        for name, tensor in tensors.items():
            _, block, bytes_of_block = _of_name(tensor.dtype)
            end = start + tensor.offset + math.prod(tensor.shape) // block * bytes_of_block
            if end > size:
                raise self.refuse(f"ends before the tensor {name!r} does")
            tensors[name] = tensor._replace(offset=start + tensor.offset)
        return metadata, tensors

    def tensor(self) -> tuple[str, StoredTensor]:
        """Returns the name of the next tensor, and its shape and place after the metadata."""
        name, rank = self.text(), self.scalar("I")
        if rank > 4:
            raise self.refuse(f"has the tensor {name!r} of rank {rank}")
        shape = tuple(reversed([self.scalar("Q") for _ in range(rank)]))
        number, offset = self.scalar("I"), self.scalar("Q")
        kind = (_PLAIN | _QUANTIZED).get(number)
        if kind is None:
            known = ", ".join(each[0] for each in (_PLAIN | _QUANTIZED).values())
            problem = f"the tensor {name!r} has the type number {number}; supported are {known}"
            raise UserError(f"{problem}.", where=self.path)
        if not shape or shape[-1] % kind[1]:
            raise self.refuse(f"has the tensor {name!r} with the invalid shape {shape}")
        return name, StoredTensor("", kind[0], shape, offset)


def _translate(name: str) -> str:
    """Returns Hugging Face's name of a tensor; unknown names stay unchanged."""
    parts = name.split(".")
    prefix = ""
    if parts[0] == "blk" and len(parts) == 4:
        prefix, parts = f"model.layers.{parts[1]}.", parts[2:]
    if len(parts) != 2 or parts[0] not in _NAMES:
        return name
    return f"{prefix}{_NAMES[parts[0]]}.{parts[1]}"


def _config(
    metadata: Mapping[str, Any], tensors: Mapping[str, StoredTensor], reader: _Reader
) -> dict[str, Any]:
    """Returns the Hugging Face config for the metadata of a file; unknown keys are refused."""
    kind = metadata.get("general.architecture")
    if kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        problem = f"the architecture {kind!r} is not supported; supported are {known}."
        raise UserError(problem, where=reader.path)
    values = {
        key.removeprefix(f"{kind}."): value
        for key, value in metadata.items()
        if key.startswith(f"{kind}.")
    }
    config: dict[str, Any] = {"model_type": kind, "hidden_act": "silu"}
    config |= {ours: values.pop(theirs) for theirs, ours in _KEYS.items() if theirs in values}
    embeddings = tensors.get("model.embed_tokens.weight")
    if embeddings is None or not {"hidden_size", "num_attention_heads"} <= config.keys():
        raise reader.refuse("has no embeddings, or no sizes")
    config["vocab_size"] = embeddings.shape[0]
    heads = config["num_attention_heads"]
    if not isinstance(heads, int) or heads < 1:
        raise reader.refuse(f"has {heads!r} attention heads")
    config.setdefault("num_key_value_heads", heads)
    head_dim = config.setdefault("head_dim", config["hidden_size"] // heads)
    config["tie_word_embeddings"] = "lm_head.weight" not in tensors
    if kind == "llama":
        config["attention_bias"] = "model.layers.0.self_attn.q_proj.bias" in tensors
    for role in ("bos", "eos"):
        config[f"{role}_token_id"] = metadata.get(f"tokenizer.ggml.{role}_token_id")
    expected: dict[str, Callable[[Any], bool]] = {
        "vocab_size": lambda value: value == embeddings.shape[0],
        "rope.dimension_count": lambda value: value == head_dim,
        "attention.value_length": lambda value: value == head_dim,
        "rope.scaling.type": lambda value: value == "none",
        "rope.scaling.factor": lambda value: value in (0, 1),
        "expert_count": lambda value: value == 0,
        "expert_used_count": lambda value: value == 0,
        "attention.causal": lambda value: value is True,
    }
    for key, value in values.items():
        if key not in expected or not expected[key](value):
            raise UserError(
                f"{value!r} is not supported; it may change what the model computes.",
                where=reader.path,
                argument=f"{kind}.{key}",
            )
    return config
