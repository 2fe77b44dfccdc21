"""Reading of the index of a checkpoint, `variables.index`, with every length and sum checked.

TensorFlow's own reader is C++, and an index that is made for it can end the process. The index is a
table of LevelDB without compression: data blocks, an empty metadata block, a block with the places
of the data blocks, and a footer. Keys are the names of the tensors, in ascending order; values are
protocol buffers. Everything here must be exactly as TensorFlow writes it.
"""

import itertools
import math
import os
import pathlib
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError

from keras_transformer.export.damage import damaged, open_regular, read_bounded
from keras_transformer.export.graph import dtype_name

PREFIX = "variables/variables"
INDEX = f"{PREFIX}.index"
DATA = f"{PREFIX}.data-00000-of-00001"
#: Key of the objects that own the weights, a protocol buffer.
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"

#: Largest index, in bytes. A tensor takes about 50.
MAXIMUM_BYTES = 16 << 20
# Largest protocol buffer of objects, in bytes.
_MAXIMUM_OBJECTS = 64 << 20

_FOOTER = 48
_MAGIC = bytes.fromhex("57fb808b247547db")
_TRAILER = struct.Struct("<BI")  # kind of compression, checksum
_BYTES_OF = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "bool": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip


class Entry(NamedTuple):
    """A tensor of the index.

    Attributes:
        dtype: name of its dtype.
        shape: its shape.
        offset: its first byte in the file of the weights.
        size: number of its bytes.
    """

    dtype: str
    shape: list[int]
    offset: int
    size: int


def read_index(directory: pathlib.Path) -> dict[str, Entry]:
    """Returns the tensors of a checkpoint by key; a `UserError` reports what is wrong.

    Args:
        directory: directory of the export.
    """
    content = read_bounded(directory, INDEX, MAXIMUM_BYTES)
    with open_regular(directory, DATA) as file:
        data_bytes = os.fstat(file.fileno()).st_size
    try:
        return _entries(content, data_bytes)
    except (DecodeError, IndexError, UnicodeDecodeError, ValueError, struct.error) as error:
        raise damaged(directory, INDEX, f"cannot be read ({error})") from error


def read_objects(directory: pathlib.Path, entries: dict[str, Entry]) -> bytes:
    """Returns the protocol buffer of the objects that own the weights.

    Args:
        directory: directory of the export.
        entries: from `read_index`.
    """
    entry = entries.get(OBJECTS)
    if entry is None or entry.dtype != "string" or entry.size > _MAXIMUM_OBJECTS:
        raise damaged(directory, INDEX, f"cannot be read ({OBJECTS} is missing or wrong)")
    with open_regular(directory, DATA) as file:
        file.seek(entry.offset)
        content = file.read(entry.size)
    try:
        length, start = _varint(content, 0)
        text = content[start + 4 :]  # a checksum of the length comes first
        if len(text) != length:
            raise ValueError(f"{len(text):,} bytes of {OBJECTS}, not {length:,}")
    except (IndexError, ValueError) as error:
        raise damaged(directory, DATA, f"cannot be read ({error})") from error
    return text


def _entries(content: bytes, data_bytes: int) -> dict[str, Entry]:
    items = read_table(content)
    if not items or items[0][0] != b"":
        raise ValueError("no header")
    _check_header(items[0][1])
    return {key.decode("utf-8"): _entry(key, value, data_bytes) for key, value in items[1:]}


def read_table(content: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the keys and values of a table; a `ValueError` or another error says what is wrong.

    Args:
        content: the whole table.
    """
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or not footer.endswith(_MAGIC):
        raise ValueError("not a table")
    (metadata_start, metadata_size, index_start, index_size), end = _varints(footer, 0, 4)
    if any(footer[end : -len(_MAGIC)]):
        raise ValueError("more in its footer")
    # Each part begins where the one before ends.
    expected, items = 0, []
    for last_key, handle in _items(_block(content, index_start, index_size)):
        (start, size), end = _varints(handle, 0, 2)
        if start != expected or end != len(handle):
            raise ValueError("blocks that are not in order")
        items += _items(_block(content, start, size))
        expected = start + size + _TRAILER.size
        if not items or items[-1][0] > last_key:
            raise ValueError("keys that are not in order")
    if metadata_start != expected or list(_items(_block(content, metadata_start, metadata_size))):
        raise ValueError("metadata")
    expected += metadata_size + _TRAILER.size
    if index_start != expected or expected + index_size + _TRAILER.size + _FOOTER != len(content):
        raise ValueError("parts that nothing refers to")
    if any(key >= following for (key, _), (following, _) in itertools.pairwise(items)):
        raise ValueError("keys that are not in order")
    return items


def _check_header(content: bytes) -> None:
    from tensorflow.core.protobuf import tensor_bundle_pb2

    header = tensor_bundle_pb2.BundleHeaderProto.FromString(content)
    if (header.num_shards, header.endianness) != (1, 0) or header.version.producer != 1:
        raise ValueError("another version, or more than one file of weights")


def _entry(key: bytes, content: bytes, data_bytes: int) -> Entry:
    from tensorflow.core.protobuf import tensor_bundle_pb2

    found = tensor_bundle_pb2.BundleEntryProto.FromString(content)
    dtype, shape = dtype_name(found.dtype), [axis.size for axis in found.shape.dim]
    name = key.decode("utf-8")
    if found.slices or found.shard_id or found.shape.unknown_rank or min(shape, default=0) < 0:
        raise ValueError(f"{name!r} is in parts, or has no shape")
    if name == OBJECTS:
        is_right = dtype == "string" and not shape
    else:
        is_right = dtype in _BYTES_OF and math.prod(shape) * _BYTES_OF[dtype] == found.size
    if not is_right or re.search("[\\0-\\x1f]", name):
        raise ValueError(f"{name!r} is {found.size:,} bytes of {dtype} {shape}")
    if found.offset < 0 or found.size < 0 or found.offset + found.size > data_bytes:
        raise ValueError(f"{name!r} is outside of the file of weights")
    return Entry(dtype, shape, found.offset, found.size)


def _block(content: bytes, start: int, size: int) -> bytes:
    """Returns a block without its trailer."""
    end = start + size
    if end + _TRAILER.size > len(content) - _FOOTER:
        raise ValueError("a block outside of the file")
    compression, checksum = _TRAILER.unpack_from(content, end)
    if compression != 0 or masked_crc32c(content[start : end + 1]) != checksum:
        raise ValueError("a checksum that differs")
    return content[start:end]


def _items(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a block."""
    (count,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 - 4 * count
    if count == 0 or end < 0:
        raise ValueError("a block without its list of keys")
    # Places of keys that are whole. They let a reader search the block.
    whole = struct.unpack_from(f"<{count}I", block, end)
    starts = set(whole)
    position, key, found = 0, b"", {0}
    while position < end:
        start = position
        (shared, added, size), position = _varints(block, position, 3)
        if shared > len(key) or position + added + size > end:
            raise ValueError("a key or value outside of its block")
        if start in starts:
            if shared:
                raise ValueError("a key that is not whole")
            found.add(start)
        key = key[:shared] + block[position : position + added]
        position += added
        yield key, block[position : position + size]
        position += size
    if whole[0] != 0 or list(whole) != sorted(starts) or starts != found:
        raise ValueError("a list of keys that is wrong")


def _varints(content: bytes, position: int, count: int) -> tuple[list[int], int]:
    numbers = []
    for _ in range(count):
        number, position = _varint(content, position)
        numbers.append(number)
    return numbers, position


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """Returns a number of at most 56 bits, in groups of seven, and the position after it."""
    number = 0
    for shift in range(0, 56, 7):
        byte = content[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
    raise ValueError("a number that is too large")


def _make_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def masked_crc32c(content: bytes) -> int:
    """Returns the checksum CRC-32C of bytes, in the form in which TensorFlow's files hold it.

    >>> hex(masked_crc32c(b"123456789"))
    '0xc78ab0e5'
    """
    value = 0xFFFFFFFF
    for byte in content:
        value = _TABLE[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
