"""Check of the tokenizer models in a graph, before an operation of tensorflow-text reads them.

The operations trust these bytes: a junk model makes them read and write outside of its memory.

- A WordPiece model is a flatbuffer with a double-array trie. The vocabulary is read from the trie,
  with checked indices, and the model is built again from it: the bytes must be equal.
- A SentencePiece model is a protocol buffer, see `text/sentencepiece_model.py` for models that this
  package learned, and `text/sentencepiece_pieces.py` for other models.

A model must be a constant of the graph: one that the graph computes is refused.
"""

import ctypes
import hashlib
import os
import pathlib
import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_transformer.export.damage import refused
from keras_transformer.export.graph import Graph, NotConstantError
from keras_transformer.text.sentencepiece_model import find_model_problem
from keras_transformer.text.sentencepiece_pieces import find_unsafe_part

#: Largest model, in bytes. A vocabulary of 250,000 pieces takes about 5 MB.
MAXIMUM_BYTES = 64 << 20
#: Largest number of pieces of a vocabulary.
MAXIMUM_PIECES = 1 << 20
#: Longest piece of a WordPiece vocabulary, in bytes.
MAXIMUM_PIECE_BYTES = 1000

# DT_UINT8 in tensorflow/core/framework/types.proto.
_UINT8 = 4

# The input of each operation that is a WordPiece model.
_WORDPIECE_INPUT = {"FastWordpieceTokenizeWithOffsets": 1}

# Fields of `FastWordpieceTokenizerConfig`, from fast_wordpiece_tokenizer_model.fbs.
_TRIE, _LONGEST_WORD, _SUFFIX_INDICATOR, _UNKNOWN = 0, 4, 5, 6
# A value of the trie holds the piece's length in 8 bits, its id in 22, and whether it is a suffix.
_ID_SHIFT, _ID_MASK = 8, (1 << 22) - 1
# Arguments with which `WordPieceTokenizer` builds its model.
_LONGEST = 2**31 - 1
_INSIDE = b" "
_SPECIAL = re.compile(rb"special [0-9]{1,7}")


class UnsafeModelError(ValueError):
    """Raised for a model that an operation cannot read safely."""


def check_tokenizer_models(directory: str | os.PathLike[str], meta_graph: Any) -> None:
    """Raises a `UserError` if a tokenizer model of a graph cannot be trusted.

    Args:
        directory: directory of the export, for messages.
        meta_graph: from `read_meta_graph`.
    """
    problem = next(model_problems(Graph(meta_graph)), None)
    if problem is not None:
        raise refused(
            directory,
            f"refused: {problem}.",
            "Do not load it; export the model with `keras-transformer export`.",
        )


def model_problems(graph: Graph) -> Iterator[str]:
    """Yields what is wrong with the tokenizer models of a graph, a sentence without a period each.

    Args:
        graph: a `Graph`.
    """
    checked: set[bytes] = set()
    for place, nodes in graph.places():
        where = f"function {place}" if place else "the graph"
        for node in nodes:
            try:
                if node.op in _WORDPIECE_INPUT:
                    for content in _wordpiece_models(graph, place, node):
                        if content not in checked:
                            check_wordpiece_model(content)
                            checked.add(content)
                elif node.op == "SentencepieceOp":
                    content = node.attr["model"].s
                    _check_shared_name(node)
                    if content not in checked:
                        # Learned by this package, or by others.
                        unsafe = find_model_problem(content) and find_unsafe_part(content)
                        if unsafe is not None:
                            raise UnsafeModelError(unsafe)
                        checked.add(content)
            except (UnsafeModelError, NotConstantError) as problem:
                yield f"the tokenizer model of {node.op} in {where} cannot be trusted: {problem}"


def _wordpiece_models(graph: Graph, place: str | None, node: Any) -> Iterator[bytes]:
    number = _WORDPIECE_INPUT[node.op]
    if len(node.input) <= number:
        raise NotConstantError(f"a missing input of {node.op}")
    for tensor in graph.constants(graph.parsed(place, node.input[number])):
        if tensor.dtype != _UINT8 or len(tensor.tensor_shape.dim) != 1:
            raise UnsafeModelError("it is no vector of bytes")
        content = tensor.tensor_content or bytes(value & 255 for value in tensor.int_val)
        if len(content) != tensor.tensor_shape.dim[0].size:
            raise UnsafeModelError(
                f"{len(content):,} bytes for {tensor.tensor_shape.dim[0].size:,}"
            )
        yield content


def check_wordpiece_model(content: bytes) -> None:
    """Raises `UnsafeModelError` unless `WordPieceTokenizer` would build this model.

    Args:
        content: the flatbuffer.
    """
    if len(content) > MAXIMUM_BYTES:
        raise UnsafeModelError(f"{len(content):,} bytes, but at most {MAXIMUM_BYTES:,} are allowed")
    try:
        fields = _Flatbuffer(content)
        longest = fields.integer(_LONGEST_WORD)
        inside, unknown = fields.string(_SUFFIX_INDICATOR), fields.string(_UNKNOWN)
        pieces = _pieces_of_trie(fields.integers(_TRIE))
    except (struct.error, IndexError, ValueError) as error:
        raise UnsafeModelError("its structure is damaged") from error
    if (longest, inside) != (_LONGEST, _INSIDE) or not _SPECIAL.fullmatch(unknown):
        raise UnsafeModelError("it was built with other settings")
    try:
        same = bytes(_model_builder()(pieces, longest, inside, unknown, True, False))
    except (RuntimeError, ValueError) as error:
        raise UnsafeModelError("its vocabulary is not valid") from error
    if same != content:
        raise UnsafeModelError("it differs from the model of its vocabulary")


def _model_builder() -> Any:
    """Returns the function that builds WordPiece models, without starting TensorFlow."""
    import tensorflow

    # Other libraries find it by its name once it is loaded.
    for directory in tensorflow.__path__:
        library = pathlib.Path(directory, "libtensorflow_framework.so.2")
        if library.exists():
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    from tensorflow_text.core.pybinds import pywrap_fast_wordpiece_tokenizer_model_builder

    return pywrap_fast_wordpiece_tokenizer_model_builder.build_fast_wordpiece_model


class _Flatbuffer:
    """Fields of the root table of a flatbuffer; `struct.error` if one is outside of the buffer."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        (self._table,) = struct.unpack_from("<I", content)
        (distance,) = struct.unpack_from("<i", content, self._table)
        self._offsets = self._table - distance
        if self._offsets < 0:
            raise IndexError(self._offsets)
        (self._size,) = struct.unpack_from("<H", content, self._offsets)

    def _position(self, field: int) -> int:
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            raise IndexError(field)
        (offset,) = struct.unpack_from("<H", self._content, self._offsets + slot)
        if offset == 0:
            raise IndexError(field)
        return self._table + offset

    def integer(self, field: int) -> int:
        return struct.unpack_from("<i", self._content, self._position(field))[0]

    def _vector(self, field: int) -> tuple[int, int]:
        """Returns the first byte of a vector, and its number of elements."""
        position = self._position(field)
        position += struct.unpack_from("<I", self._content, position)[0]
        return position + 4, struct.unpack_from("<I", self._content, position)[0]

    def string(self, field: int) -> bytes:
        start, size = self._vector(field)
        return self._content[start : start + size]

    def integers(self, field: int) -> np.ndarray:
        start, size = self._vector(field)
        return np.frombuffer(self._content, "<u4", size, start)  # ValueError if it is too short


def _pieces_of_trie(units: np.ndarray) -> list[bytes]:
    """Returns the pieces of a trie of darts-clone, in the order of their ids."""
    found: dict[int, bytes] = {}
    characters = np.arange(1, 256)
    waiting, count = [(0, b"")], 0
    while waiting:
        position, piece = waiting.pop()
        count += 1
        if count > len(units) or len(piece) > MAXIMUM_PIECE_BYTES:
            raise UnsafeModelError("its trie has no end")
        unit = int(units[position])
        base = position ^ ((unit >> 10) << ((unit & 0x200) >> 6))
        if unit >> 8 & 1:  # the value of the piece that ends here
            number = int(units[base]) >> _ID_SHIFT & _ID_MASK
            if number in found or number >= MAXIMUM_PIECES:
                raise UnsafeModelError(f"two pieces with the id {number}")
            found[number] = piece
        children = base ^ characters
        inside = children < len(units)
        children, labels = children[inside], characters[inside]
        is_child = (units[children] & 0x800000FF) == labels
        for child, label in zip(children[is_child], labels[is_child], strict=True):
            waiting.append((int(child), piece + bytes([int(label)])))
    if sorted(found) != list(range(len(found))):
        raise UnsafeModelError("ids without pieces")
    return [found[number] for number in range(len(found))]


def _check_shared_name(node: Any) -> None:
    """Requires the name that follows from the model: other exports use the same names."""
    expected = f"sentencepiece_{hashlib.sha256(node.attr['model'].s).hexdigest()}"
    if node.attr["shared_name"].s != expected.encode() or node.attr["container"].s:
        raise UnsafeModelError("its resource has another name")
