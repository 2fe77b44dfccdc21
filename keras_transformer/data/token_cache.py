"""The token cache: a tokenized corpus on disk, memory-mapped, verified whenever it is opened."""

import contextlib
import dataclasses
import hashlib
import json
import mmap
import os
import pathlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer.text import SpecialIds

#: Version of the format. Caches of another version are built again.
FORMAT = 1
DESCRIPTION = "cache.json"

# Bytes of one mapped file that may be resident. A shuffled pass would make all of it resident, as
# each read maps up to 64 KiB around it. Released pages stay in the page cache.
_RESIDENT_LIMIT = 256 * 2**20
_MAPPED_AROUND_READ = 64 * 2**10

# Number of examples whose lengths are processed together.
_CHUNK = 2**18


def concatenated_ranges(begins: Any, counts: Any) -> np.ndarray:
    """Returns `begins[i], begins[i] + 1, …` (`counts[i]` numbers) for all i, one after the other.

    >>> concatenated_ranges([10, 50], [3, 2])
    array([10, 11, 12, 50, 51])
    """
    counts = np.asarray(counts, np.int64)
    ends = np.cumsum(counts)
    shifts = np.asarray(begins, np.int64) - (ends - counts)
    return np.repeat(shifts, counts) + np.arange(counts.sum())


def require_token_ids(
    origin: str,
    ids: np.ndarray,
    vocabulary_size: int,
    special_ids: SpecialIds,
    fix: str | None = None,
) -> None:
    """Raises a `UserError` unless all ids are in the vocabulary and none is padding.

    Padding inside a text would be masked, and the loss would ignore it. `origin` names the source
    of the ids, and `fix` what the user can do.
    """
    if not len(ids):
        return
    lowest, highest, padding = int(ids.min()), int(ids.max()), special_ids.padding
    is_padded = lowest <= padding if padding == 0 else bool((ids == padding).any())
    if lowest < 0 or highest >= vocabulary_size or is_padded:
        raise UserError(
            f"{origin} must give ids from 0 to {vocabulary_size - 1} other than the padding id "
            f"{padding}; got ids from {lowest} to {highest}{' with padding' * is_padded}.",
            fix=fix,
        )


class DamagedCacheError(ValueError):
    """A cache that is incomplete, damaged, or of another format and must be built again."""


class TokenCache:
    """A tokenized corpus on disk, made or found by `tokenize_corpus`.

    A cache is a directory that never changes once it has its name. `cache.json` has the key, the
    counts, the special ids, and the size and CRC-32 of every other file. For each column, `.ids`
    has the ids of all examples (little-endian `uint16` or `int32`) and `.offsets` the index at
    which each begins (`int64`); `.text` and `.text_offsets` have the UTF-8 text if it was kept.

    Opening a cache verifies every file, in 0.4 s per GB. That detects accidents (a full disk, a bad
    block), not forgery: nothing in a cache is ever executed.

    Args:
        path: The directory of the cache.

    Attributes:
        key: Hash of everything that the cache was made from.
        columns: The columns in the order of the corpus, name → `TokenColumn`.
        special_ids: The `SpecialIds` of the tokenizers.

    Raises:
        DamagedCacheError: If a file is missing, or has changed since it was written.
    """

    def __init__(self, path: str | pathlib.Path) -> None:
        self.path: pathlib.Path = pathlib.Path(path)
        content = _read_description(self.path)
        for name, expected in content["files"].items():
            _check_file(self.path / name, expected)
        self.key: str = content["key"]
        self.special_ids: SpecialIds = SpecialIds(**content.get("special_ids", {}))
        self._examples: int = content["examples"]
        self.columns: dict[str, TokenColumn] = {
            column["name"]: TokenColumn(self.path, column, self._examples)
            for column in content["columns"]
        }

    def __len__(self) -> int:
        return self._examples

    @property
    def sequence_columns(self) -> dict[str, "TokenColumn"]:
        """The columns that contain texts, name → `TokenColumn`: all but `label`."""
        return {name: column for name, column in self.columns.items() if name != "label"}

    def iterate_lengths(self) -> Iterator[np.ndarray]:
        """Yields the lengths of all examples in chunks `int64 [examples, sequence columns]`."""
        columns = self.sequence_columns.values()
        for first in range(0, len(self), _CHUNK):
            last = min(first + _CHUNK, len(self))
            yield np.stack([column.lengths(first, last) for column in columns], axis=1)


class TokenColumn:
    """One column of a cache: examples of ids, and their text if it was kept.

    Attributes:
        vocabulary_size: Number of ids of the tokenizer.
        tokens: Number of ids of all examples together.
        longest: Number of ids of the longest example.
    """

    def __init__(self, path: pathlib.Path, description: Mapping[str, Any], examples: int) -> None:
        name = description["name"]
        self.vocabulary_size: int = description["vocabulary_size"]
        self.tokens: int = description["tokens"]
        self.longest: int = description["longest"]
        self._ids = _Mapped(path / f"{name}.ids", description["dtype"], self.tokens)
        self._offsets = _Mapped(path / f"{name}.offsets", "<i8", examples + 1)
        self._text: tuple[_Mapped, _Mapped] | None = None
        if description["text_bytes"] is not None:
            self._text = (
                _Mapped(path / f"{name}.text", "u1", description["text_bytes"]),
                _Mapped(path / f"{name}.text_offsets", "<i8", examples + 1),
            )

    def spans(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns where each example's ids begin and their numbers, two `int64` arrays."""
        begins = self._offsets.take(examples)
        ends = self._offsets.take(examples + 1)
        return begins, ends - begins

    def gather(self, begins: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Returns `counts[i]` ids from index `begins[i]`, for all i, one after the other."""
        return self._ids.take(concatenated_ranges(begins, counts), reads=len(begins))

    def lengths(self, first: int, last: int) -> np.ndarray:
        """Returns the numbers of ids of the examples `first` to `last - 1`, `int64`."""
        return np.diff(self._offsets.slice(first, last + 1))

    def texts(self, examples: np.ndarray) -> list[bytes]:
        """Returns the UTF-8 text of each example."""
        if self._text is None:
            fix = "Make it with `tokenize_corpus(..., keep_text=True)`."
            raise UserError("This token cache was made without its text.", fix=fix)
        text, offsets = self._text
        begins, ends = offsets.take(examples), offsets.take(examples + 1)
        return [text.slice(begin, end).tobytes() for begin, end in zip(begins, ends, strict=True)]


class _Mapped:
    """A file as a read-only array, of which only a bounded part stays resident.

    Reading a mapped page that is no longer in the file ends the process (SIGBUS), so the size of
    the file is compared before each read.
    """

    def __init__(self, path: pathlib.Path, dtype: str, count: int) -> None:
        self._path = path
        self._mapping: mmap.mmap | None = None
        self._array = np.zeros(0, dtype)
        if count:  # an empty file cannot be mapped
            # Kept open: a file that replaces it at the same path does not matter.
            self._file = path.open("rb", buffering=0)
            self._mapping = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._array = np.frombuffer(self._mapping, dtype)
        self._resident = 0

    def take(self, positions: np.ndarray, reads: int | None = None) -> np.ndarray:
        self._require_whole()
        values = self._array[positions]
        self._count_resident((len(positions) if reads is None else reads) * _MAPPED_AROUND_READ)
        return values

    def slice(self, first: int, last: int) -> np.ndarray:
        self._require_whole()
        values = self._array[first:last].copy()
        self._count_resident(values.nbytes + _MAPPED_AROUND_READ)
        return values

    def _require_whole(self) -> None:
        if self._mapping is None:
            return
        size = os.fstat(self._file.fileno()).st_size
        if size < self._array.nbytes:
            problem = f"the file of the token cache has shrunk to {size:,} bytes while it is used."
            fix = "Run the same command again, which builds the cache again; the last checkpoint "
            fix += "is kept."
            raise UserError(problem, where=self._path, fix=fix)

    def _count_resident(self, size: int) -> None:
        self._resident += size
        if self._mapping is not None and self._resident > _RESIDENT_LIMIT < self._array.nbytes:
            self._mapping.madvise(mmap.MADV_DONTNEED)
            self._resident = 0


class CacheWriter(contextlib.ExitStack):
    """Context manager that writes the files of a cache into an empty directory.

    `append` the chunks, then `finish`: a directory without a description is not a cache.
    """

    def __init__(
        self,
        path: pathlib.Path,
        vocabulary_sizes: Mapping[str, int],
        special_ids: SpecialIds,
        keep_text: bool,
    ) -> None:
        self.examples: int = 0
        super().__init__()
        self._path = path
        self._special_ids = special_ids
        self._columns = [
            # Labels are not texts: their ids are never padded.
            _ColumnWriter(
                path, name, size, SpecialIds() if name == "label" else special_ids, keep_text
            )
            for name, size in vocabulary_sizes.items()
        ]
        self._files = [file for column in self._columns for file in column.files]
        for file in self._files:
            self.callback(file.close)

    def append(self, columns: Sequence[tuple[np.ndarray, np.ndarray, list[bytes]]]) -> None:
        """Appends a chunk: for each column the flat ids, the lengths of the examples, the texts."""
        for writer, (ids, lengths, texts) in zip(self._columns, columns, strict=True):
            writer.append(ids, lengths, texts)
        self.examples += len(columns[0][1])

    def finish(self, key: str) -> None:
        """Completes the files, the description last."""
        self.close()
        content = {
            "format": FORMAT,
            "key": key,
            "examples": self.examples,
            "special_ids": dataclasses.asdict(self._special_ids),
            "columns": [column.describe() for column in self._columns],
            "files": {f.name: {"bytes": f.size, "crc32": f.checksum} for f in self._files},
        }
        text = json.dumps({"content": content, "sha256": _digest(content)}, indent=1)
        (self._path / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


@dataclasses.dataclass
class _ColumnWriter:
    path: pathlib.Path
    name: str
    vocabulary_size: int
    special_ids: SpecialIds
    keep_text: bool

    def __post_init__(self) -> None:
        self._dtype = np.dtype("<u2" if self.vocabulary_size <= 2**16 else "<i4")
        self._longest = 0
        kinds = ("ids", "offsets", "text", "text_offsets")[: 4 if self.keep_text else 2]
        self.files = [_File(self.path / f"{self.name}.{kind}") for kind in kinds]
        for offsets in self.files[1::2]:
            offsets.write(bytes(8))  # the first example begins at 0

    def append(self, ids: np.ndarray, lengths: np.ndarray, texts: list[bytes]) -> None:
        origin = f"The tokenizer of column {self.name!r}"
        require_token_ids(origin, ids, self.vocabulary_size, self.special_ids)
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        values, offsets = self.files[:2]
        offsets.write_ends(values.size // self._dtype.itemsize, lengths)
        values.write(ids.astype(self._dtype).tobytes())
        if self.keep_text:
            values, offsets = self.files[2:]
            offsets.write_ends(values.size, np.fromiter(map(len, texts), np.int64, len(texts)))
            values.write(b"".join(texts))

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self._dtype.str,
            "vocabulary_size": self.vocabulary_size,
            "tokens": self.files[0].size // self._dtype.itemsize,
            "longest": self._longest,
            "text_bytes": self.files[2].size if self.keep_text else None,
        }


class _File:
    """A file with running size and CRC-32."""

    def __init__(self, path: pathlib.Path) -> None:
        self.name = path.name
        self.size = self.checksum = 0
        self._file = path.open("wb")
        self.close = self._file.close

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)
        self.checksum = zlib.crc32(data, self.checksum)

    def write_ends(self, begin: int, lengths: np.ndarray) -> None:
        """Writes where the next examples end, if the first of them begins at `begin`."""
        self.write((begin + np.cumsum(lengths)).astype("<i8").tobytes())


def _read_description(path: pathlib.Path) -> dict[str, Any]:
    try:
        description = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        content, digest = description["content"], description["sha256"]
    except FileNotFoundError as error:
        raise DamagedCacheError(f"{path}: {DESCRIPTION} is missing.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCacheError(f"{path / DESCRIPTION}: not readable ({error}).") from error
    if _digest(content) != digest:
        raise DamagedCacheError(f"{path / DESCRIPTION}: content and sha256 do not match.")
    if content["format"] != FORMAT:
        raise DamagedCacheError(f"{path}: expected format {FORMAT}, got {content['format']}.")
    return content


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_file(path: pathlib.Path, expected: Mapping[str, int]) -> None:
    if not path.is_file():
        raise DamagedCacheError(f"{path}: the file is missing.")
    if (size := path.stat().st_size) != expected["bytes"]:
        raise DamagedCacheError(f"{path}: expected {expected['bytes']} bytes, got {size}.")
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            checksum = zlib.crc32(block, checksum)
    if checksum != (crc32 := expected["crc32"]):
        raise DamagedCacheError(f"{path}: expected CRC-32 {crc32:08x}, got {checksum:08x}.")
