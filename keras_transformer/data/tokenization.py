"""Tokenizing a corpus once, with all cores, into a cache on disk."""

import collections
import concurrent.futures
import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import pathlib
import shutil
import zlib

import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer.data.token_cache import (
    FORMAT,
    DamagedCacheError,
    LabelIndex,
    TokenCache,
    write_description,
)


class CacheWriter:
    """Writes the files of a cache into an empty directory, in memory that does not grow.

    A context manager: `append` the chunks, then `finish`. Only `finish` writes the description, so
    what is left earlier is no cache.

    Args:
        path: the directory.
        vocabulary_sizes: of each column, name → size.
        keep_text: whether texts are written too.
    """

    def __init__(self, path, vocabulary_sizes, keep_text):
        self.examples = 0
        self._path = path
        self._columns = [
            _ColumnWriter(path, name, size, keep_text) for name, size in vocabulary_sizes.items()
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file in self._files():
            file.close()

    def append(self, columns):
        """Appends a chunk: of each column flat ids, examples' lengths and texts as `bytes`."""
        for writer, (ids, lengths, texts) in zip(self._columns, columns, strict=True):
            writer.append(ids, lengths, texts)
        self.examples += len(columns[0][1])

    def finish(self, key):
        """Completes the files, the description last."""
        for file in self._files():
            file.close()
        content = {
            "format": FORMAT,
            "key": key,
            "examples": self.examples,
            "columns": [column.describe() for column in self._columns],
            "files": {
                file.name: {"bytes": file.size, "crc32": file.checksum} for file in self._files()
            },
        }
        write_description(self._path, content)

    def _files(self):
        return [file for column in self._columns for file in column.files]


class _ColumnWriter:
    def __init__(self, path, name, vocabulary_size, keep_text):
        self._name = name
        self._vocabulary_size = vocabulary_size
        self._dtype = np.dtype("<u2" if vocabulary_size <= 2**16 else "<i4")
        self._longest = 0
        self._ids = _Ragged(path, f"{name}.ids", f"{name}.offsets")
        self._text = _Ragged(path, f"{name}.text", f"{name}.text_offsets") if keep_text else None

    @property
    def files(self):
        return self._ids.files + (self._text.files if self._text else [])

    def append(self, ids, lengths, texts):
        # 0 is padding: inside a text it would be masked away, and the loss would not see it.
        if len(ids) and not 1 <= ids.min() <= ids.max() < self._vocabulary_size:
            raise ValueError(
                f"The tokenizer of column {self._name!r} must give ids from 1 to "
                f"{self._vocabulary_size - 1}, its vocabulary_size - 1; got {ids.min()} to "
                f"{ids.max()}."
            )
        self._ids.append(ids.astype(self._dtype).tobytes(), lengths, self._dtype.itemsize)
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        if self._text:
            sizes = np.fromiter(map(len, texts), np.int64, len(texts))
            self._text.append(b"".join(texts), sizes, 1)

    def describe(self):
        return {
            "name": self._name,
            "dtype": self._dtype.str,
            "vocabulary_size": self._vocabulary_size,
            "tokens": self._ids.total,
            "longest": self._longest,
            "text_bytes": self._text.total if self._text else None,
        }


class _Ragged:
    """A file of values, and a file of the offsets at which examples begin."""

    def __init__(self, path, values, offsets):
        self.total = 0
        self.files = [_File(path / values), _File(path / offsets)]
        self.files[1].write(np.zeros(1, "<i8").tobytes())

    def append(self, values, lengths, itemsize):
        if len(values) != lengths.sum() * itemsize:
            raise ValueError(
                f"A chunk's lengths must add up to its values: {lengths.sum()} × {itemsize} bytes; "
                f"got {len(values)} bytes."
            )
        self.files[0].write(values)
        self.files[1].write((self.total + np.cumsum(lengths)).astype("<i8").tobytes())
        self.total += int(lengths.sum())


class _File:
    """A file that knows its size and CRC-32."""

    def __init__(self, path):
        self.name = path.name
        self.size = 0
        self.checksum = 0
        self._file = path.open("wb")

    def write(self, data):
        self._file.write(data)
        self.size += len(data)
        self.checksum = zlib.crc32(data, self.checksum)

    def close(self):
        self._file.close()


logger = logging.getLogger(__name__)

# A chunk is what one thread tokenizes at a time. Few are under way at once: these bound the memory.
_CHUNK_EXAMPLES = 2048
_CHUNK_CHARACTERS = 2**20


def tokenize_corpus(corpus, tokenizers, directory, *, keep_text=False, progress=None):
    """Returns the `TokenCache` of a corpus: the one in `directory` if it is sound, else a new one.

    A cache is named by a hash of the corpus' fingerprint, the tokenizers' hashes and the format, so
    that one of anything else is never taken for it. It gets its name only when every byte is on the
    disk. A damaged one is reported in the log and built again. Of several processes that want the
    same cache, one builds it and the others wait for it.

    Training reads the cache alone: what becomes of the corpus' files afterwards changes nothing. If
    they change while they are being tokenized, that is an error.

    Args:
        corpus: a `Corpus`.
        tokenizers: the tokenizer of all columns, or a mapping from each column to its own; of a
            column `label` it is a `LabelIndex`.
        directory: where caches are kept. It is made if it is not there.
        keep_text: whether to keep the text too, for batches with `samplers`.
        progress: a function that is called with the number of examples done, now and then.

    Raises:
        UserError: if the corpus has no examples or changes meanwhile, or `directory` cannot be one.
        OSError: if there is no room on the disk. Nothing but an empty lock file is left behind.
    """
    tokenizers = _tokenizer_of_each_column(corpus, tokenizers)
    fingerprint = corpus.fingerprint()
    key = _key(fingerprint, tokenizers, keep_text)
    path = pathlib.Path(directory) / key
    cache = _open(path, key, logging.DEBUG)
    if cache is not None:
        return cache
    _make_directory(path.parent)
    with _lock(path.with_suffix(".lock")):
        # Another process may have built it while this one waited.
        cache = _open(path, key, logging.WARNING)
        if cache is None:
            _remove_leftovers(path)
            with _full_disk_explained(path.parent), atomic_directory(path) as temporary:
                _write(corpus, tokenizers, temporary, key, keep_text, progress)
                if corpus.fingerprint() != fingerprint:
                    raise UserError(
                        f"{corpus.name}: changed while it was being tokenized. Run again when its "
                        "files are complete."
                    )
            cache = TokenCache(path)
    return cache


def _tokenizer_of_each_column(corpus, tokenizers):
    columns = tuple(corpus.columns)
    if not isinstance(tokenizers, collections.abc.Mapping):
        tokenizers = dict.fromkeys(columns, tokenizers)
    if "label" in columns and not isinstance(tokenizers.get("label"), LabelIndex):
        raise ValueError(
            "Labels are no text: `tokenizers` must be a mapping with a `LabelIndex` for the column "
            "'label', such as {'text': tokenizer, 'label': LabelIndex(corpus.labels)}."
        )
    if set(tokenizers) != set(columns):
        raise ValueError(
            f"`tokenizers` must have one for each of the corpus' columns {list(columns)}; "
            f"got {sorted(tokenizers)}."
        )
    return {column: tokenizers[column] for column in columns}


def _key(fingerprint, tokenizers, keep_text):
    parts = {
        "format": FORMAT,
        "corpus": fingerprint,
        "tokenizers": [[name, str(tokenizer.hash)] for name, tokenizer in tokenizers.items()],
        "keep_text": keep_text,
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _open(path, key, log_level):
    """Returns the cache at `path`, or None if there is none or it cannot be trusted."""
    if not path.exists():
        return None
    try:
        cache = TokenCache(path)
        if cache.key != key:
            raise DamagedCacheError(f"{path}: made from something else ({cache.key}).")
    except DamagedCacheError as error:
        logger.log(log_level, "The token cache is damaged and will be built again. %s", error)
        return None
    return cache


def _make_directory(directory):
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise UserError(
            f"{directory}: cannot hold the token cache ({error.strerror}). "
            "Give a directory that can be written."
        ) from error


@contextlib.contextmanager
def _lock(path):
    """Holds a lock that the kernel gives back if this process dies."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("Another process is building this token cache: waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_leftovers(path):
    """Removes a damaged cache, and what a process that was killed has left of building it.

    Under the lock nobody else is building it. Those who read it keep their files until they end.
    """
    for leftover in [path, *path.parent.glob(f".{path.name}.*")]:
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def _full_disk_explained(directory):
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        problem = f"{error.strerror} while writing the token cache: make room, or move the cache"
        raise OSError(error.errno, problem, str(directory)) from error


def _write(corpus, tokenizers, path, key, keep_text, progress):
    sizes = {name: tokenizer.vocabulary_size for name, tokenizer in tokenizers.items()}
    with CacheWriter(path, sizes, keep_text) as writer:
        for columns in _tokenized_chunks(corpus, list(tokenizers.values())):
            writer.append(columns)
            if progress is not None:
                progress(writer.examples)
        if writer.examples == 0:
            raise UserError(f"{corpus.name}: no examples. Check that this is the right file.")
        writer.finish(key)


def _tokenized_chunks(corpus, tokenizers):
    """Yields the corpus' chunks in order, tokenized in as many threads as there are cores.

    TensorFlow's operations run outside Python's global lock, so threads are enough; and other than
    in a `tf.data.Dataset`, an error of the corpus comes out as it went in.
    """
    cores = len(os.sched_getaffinity(0))
    pending = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        try:
            for chunk in _chunks(corpus):
                pending.append(pool.submit(_tokenize, chunk, tokenizers))
                if len(pending) > cores + 1:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _chunks(corpus):
    chunk, characters = [], 0
    for example in corpus:
        chunk.append(example)
        characters += sum(map(len, example))
        if len(chunk) == _CHUNK_EXAMPLES or characters > _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _tokenize(chunk, tokenizers):
    """Returns for each column its flat ids, the examples' lengths, and the texts as UTF-8."""
    columns = []
    for tokenizer, strings in zip(tokenizers, zip(*chunk, strict=True), strict=True):
        texts = [string.encode() for string in strings]
        ragged = tokenizer.tokenize(tf.constant(texts))
        columns.append((ragged.values.numpy(), np.diff(ragged.row_splits.numpy()), texts))
    return columns
