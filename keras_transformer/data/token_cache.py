"""The token cache: a tokenized corpus on disk, memory-mapped, checked whenever it is opened.

A cache is a directory that never changes once it has its name:

| file | what it holds |
|---|---|
| `cache.json` | the key, the counts, and the size and CRC-32 of every other file |
| `<column>.ids` | the ids of all examples, one after the other, little-endian `uint16` or `int32` |
| `<column>.offsets` | little-endian `int64`: example i is `ids[offsets[i]:offsets[i + 1]]` |
| `<column>.text`, `<column>.text_offsets` | the UTF-8 text in the same way, if it was asked for |

Every byte is read and compared with its CRC-32 when a cache is opened. That takes 0.4 s per GB, a
hundredth of the time that tokenizing took, and it also warms the page cache. The check is for
accidents (a full disk, a torn write, a bad block), not for forgery: nothing in a cache is ever
executed.
"""

import hashlib
import json
import mmap
import pathlib
import zlib

import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.data.batching.batches import concatenated_ranges
from keras_transformer.text.tokenizer import FIRST_PIECE_ID


class LabelIndex:
    """The tokenizer of a column of labels: one id a label, in the order of `labels`.

    Ids begin where those of pieces do, so that class n has the id n + 4; `LabeledBatches` give n.

    Args:
        labels: the labels, such as `LabeledCorpus.labels` of the training corpus.

    Example:

    >>> LabelIndex(["bad", "good"]).tokenize(["good", "bad"]).to_list()
    [[5], [4]]
    """

    def __init__(self, labels):
        self.labels = tuple(labels)
        self._ids = {label: FIRST_PIECE_ID + n for n, label in enumerate(self.labels)}
        if len(self._ids) != len(self.labels):
            raise ValueError(f"`labels` must differ from each other; got {self.labels}.")

    @property
    def vocabulary_size(self):
        return FIRST_PIECE_ID + len(self.labels)

    @property
    def hash(self):
        return hashlib.sha256(json.dumps(["labels", *self.labels]).encode()).hexdigest()

    def tokenize(self, strings):
        """Returns the id of each label as a `tf.RaggedTensor` [B, 1]."""
        labels = [label.decode() for label in tf.convert_to_tensor(strings).numpy()]
        for label in labels:
            if label not in self._ids:
                known = ", ".join(map(repr, self.labels[:20]))
                raise UserError(
                    f"Unknown label {label!r}; known are {known}. Put it right, or add it to the "
                    "training corpus."
                )
        ids = tf.constant([self._ids[label] for label in labels], tf.int32)
        return tf.RaggedTensor.from_uniform_row_length(ids, 1)


FORMAT = 1
DESCRIPTION = "cache.json"

# How much of one mapped file may be resident. A shuffled pass would make all of it resident, as
# each read maps up to 64 KiB around it. Pages that are given back stay in the page cache, and
# mapping them again costs a minor fault.
_RESIDENT_LIMIT = 256 * 2**20
_MAPPED_AROUND_READ = 64 * 2**10

# Examples whose lengths are looked at together.
_CHUNK = 2**18


class DamagedCacheError(ValueError):
    """A cache that is incomplete, torn, or of another format: it has to be built again."""


class TokenCache:
    """A tokenized corpus on disk. `tokenize_corpus` makes it, or finds it.

    Args:
        path: the cache's own directory.

    Attributes:
        key: the hash of all that the cache was made from.
        columns: the columns in the corpus' order, name → `TokenColumn`.

    Raises:
        DamagedCacheError: if a file is missing, of another size, or not what was written.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        content = _read_description(self.path)
        for name, expected in content["files"].items():
            _check_file(self.path / name, expected)
        self.key = content["key"]
        self._examples = content["examples"]
        self.columns = {
            column["name"]: TokenColumn(self.path, column, self._examples)
            for column in content["columns"]
        }

    def __len__(self):
        return self._examples

    @property
    def sequence_columns(self):
        """The columns that hold texts, name → `TokenColumn`: all but `label`."""
        return {name: column for name, column in self.columns.items() if name != "label"}

    def iterate_lengths(self):
        """Yields how many ids all examples have, in chunks `int64 [examples, sequence columns]`."""
        columns = self.sequence_columns.values()
        for first in range(0, len(self), _CHUNK):
            last = min(first + _CHUNK, len(self))
            yield np.stack([column.lengths(first, last) for column in columns], axis=1)


class TokenColumn:
    """One column of a cache: examples of ids, and their text if it was kept.

    Attributes:
        vocabulary_size: of the tokenizer that made the ids.
        tokens: the number of ids of all examples together.
        longest: the number of ids of the longest example.
    """

    def __init__(self, path, description, examples):
        name = description["name"]
        self.vocabulary_size = description["vocabulary_size"]
        self.tokens = description["tokens"]
        self.longest = description["longest"]
        self._ids = _Mapped(path / f"{name}.ids", description["dtype"], self.tokens)
        self._offsets = _Mapped(path / f"{name}.offsets", "<i8", examples + 1)
        self._text = self._text_offsets = None
        if description["text_bytes"] is not None:
            self._text = _Mapped(path / f"{name}.text", "u1", description["text_bytes"])
            self._text_offsets = _Mapped(path / f"{name}.text_offsets", "<i8", examples + 1)

    def spans(self, examples):
        """Returns where each example's ids begin and how many there are, two `int64` arrays."""
        begins = self._offsets.take(examples)
        ends = self._offsets.take(examples + 1)
        return begins, ends - begins

    def gather(self, begins, counts):
        """Returns `counts[i]` ids from `begins[i]` on, for all i, one after the other."""
        return self._ids.take(concatenated_ranges(begins, counts), reads=len(begins))

    def lengths(self, first, last):
        """Returns the number of ids of the examples `first` to `last - 1`, `int64`."""
        return np.diff(self._offsets.slice(first, last + 1))

    def texts(self, examples):
        """Returns the UTF-8 text of each example, a list of `bytes`."""
        if self._text is None:
            raise ValueError(
                "This token cache was made without its text. "
                "Make it with `tokenize_corpus(..., keep_text=True)`."
            )
        begins = self._text_offsets.take(examples)
        ends = self._text_offsets.take(examples + 1)
        return [
            self._text.slice(begin, end).tobytes() for begin, end in zip(begins, ends, strict=True)
        ]


class _Mapped:
    """A file as a read-only array, of which only a bounded part stays resident."""

    def __init__(self, path, dtype, count):
        self._mapping = None
        self._array = np.zeros(0, dtype)
        if count:  # an empty file cannot be mapped
            with path.open("rb") as file:
                self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._array = np.frombuffer(self._mapping, dtype)
        self._resident = 0

    def take(self, positions, reads=None):
        values = self._array[positions]
        self._count_resident((len(positions) if reads is None else reads) * _MAPPED_AROUND_READ)
        return values

    def slice(self, first, last):
        values = self._array[first:last].copy()
        self._count_resident(values.nbytes + _MAPPED_AROUND_READ)
        return values

    def _count_resident(self, size):
        self._resident += size
        if self._resident > _RESIDENT_LIMIT < self._array.nbytes:
            self._mapping.madvise(mmap.MADV_DONTNEED)
            self._resident = 0


def write_description(path, content):
    """Writes `cache.json`, last of all files: `content` and the hash of it."""
    text = json.dumps({"content": content, "sha256": _digest(content)}, indent=1)
    (path / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def _read_description(path):
    try:
        description = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        content, digest = description["content"], description["sha256"]
    except FileNotFoundError as error:
        raise DamagedCacheError(f"{path}: no {DESCRIPTION} in it.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCacheError(f"{path / DESCRIPTION}: not readable ({error}).") from error
    if _digest(content) != digest:
        raise DamagedCacheError(f"{path / DESCRIPTION}: its content and its sha256 differ.")
    if content["format"] != FORMAT:
        raise DamagedCacheError(f"{path}: expected format {FORMAT}, got {content['format']}.")
    return content


def _digest(content):
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_file(path, expected):
    if not path.is_file():
        raise DamagedCacheError(f"{path}: the file is missing.")
    if path.stat().st_size != expected["bytes"]:
        raise DamagedCacheError(
            f"{path}: expected {expected['bytes']} bytes, got {path.stat().st_size}."
        )
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            checksum = zlib.crc32(block, checksum)
    if checksum != expected["crc32"]:
        raise DamagedCacheError(
            f"{path}: expected CRC-32 {expected['crc32']:08x}, got {checksum:08x}."
        )
