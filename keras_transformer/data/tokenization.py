"""Tokenization of a corpus, once and with all cores, into a cache on disk."""

import collections
import concurrent.futures
import contextlib
import errno
import hashlib
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import filelock
import numpy as np
import tensorflow as tf

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer._utils.process import available_cores
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import NO_EXAMPLES_FIX, Corpus, Example
from keras_transformer.data.token_cache import FORMAT, CacheWriter, DamagedCacheError, TokenCache
from keras_transformer.text import SpecialIds, Tokenizer

logger: logging.Logger = logging.getLogger(__name__)

#: Id of class 0 in the column `label` of a cache.
FIRST_LABEL_ID = 4


class ColumnTokenizer(Protocol):
    """Tokenizer of a column: a `Tokenizer`, or a `LabelIndex` for labels."""

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def hash(self) -> str: ...

    def tokenize(self, strings: Any) -> tf.RaggedTensor: ...


class LabelIndex:
    """Tokenizer of a column of labels: one id per label, in the order of `labels`.

    Class n has the id n + 4, because a cache has no id 0; `LabeledBatches` yield n.

    Args:
        labels: The labels, such as `LabeledCorpus.labels` of the training corpus.

    Attributes:
        vocabulary_size: One more than the largest id.
        hash: The sha256, in hexadecimal, of the labels.

    >>> LabelIndex(["bad", "good"]).tokenize(["good", "bad"]).to_list()
    [[5], [4]]
    """

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels: tuple[str, ...] = tuple(labels)
        self._ids = {label: FIRST_LABEL_ID + n for n, label in enumerate(self.labels)}
        if len(self._ids) != len(self.labels):
            raise UserError(f"`labels` must differ from each other; got {self.labels}.")
        self.vocabulary_size: int = FIRST_LABEL_ID + len(self.labels)
        content = json.dumps(["labels", *self.labels])
        self.hash: str = hashlib.sha256(content.encode()).hexdigest()

    def tokenize(self, strings: Any) -> tf.RaggedTensor:
        """Returns the id of each label as a `tf.RaggedTensor` [B, 1]."""
        labels = [label.decode() for label in tf.convert_to_tensor(strings).numpy()]
        for label in labels:
            if label not in self._ids:
                known = ", ".join(map(repr, self.labels[:20]))
                fix = "Correct it, or add it to the training corpus."
                raise UserError(f"Unknown label {label!r}; known are {known}.", fix=fix)
        ids = tf.constant([self._ids[label] for label in labels], tf.int32)
        return tf.RaggedTensor.from_uniform_row_length(ids, 1)  # pyright: ignore


# Limits of what one thread tokenizes at a time. Few such chunks are in memory at once.
_CHUNK_EXAMPLES = 2048
_CHUNK_CHARACTERS = 2**20

# For each column its flat ids, the lengths of the examples, and the texts as UTF-8.
_Chunk: TypeAlias = list[tuple[np.ndarray, np.ndarray, list[bytes]]]


def tokenize_corpus(
    corpus: Corpus,
    tokenizers: ColumnTokenizer | Mapping[str, ColumnTokenizer],
    directory: Path,
    *,
    keep_text: bool = False,
    progress: Callable[[int], object] | None = None,
) -> TokenCache:
    """Returns the `TokenCache` of a corpus: the one in `directory` if it is intact, or a new one.

    The name of a cache is a hash of the corpus' fingerprint, the tokenizers' hashes and the format.
    A cache gets its name only when every byte is on the disk. A damaged cache is reported in the
    log and built again. If several processes want the same cache, one builds it and the others
    wait. Training reads the cache alone: later changes of the corpus' files have no effect.

    Args:
        corpus: A `Corpus`.
        tokenizers: The tokenizer of all columns, or a mapping from each column to its tokenizer;
            that of a column `label` is a `LabelIndex`.
        directory: Directory of the caches. It is created if it does not exist.
        keep_text: Whether to keep the text, for batches with `samplers`.
        progress: A function that is called repeatedly with the number of examples so far.

    Raises:
        UserError: If the corpus has no examples or changes meanwhile, if the tokenizers have
            different special ids, or if `directory` cannot be written.
        OSError: If the disk is full. Nothing but an empty lock file is left behind.
    """
    by_column, special_ids = _find_tokenizers(corpus, tokenizers)
    fingerprint = corpus.fingerprint()
    parts = {
        "format": FORMAT,
        "corpus": fingerprint,
        "tokenizers": [[name, str(tokenizer.hash)] for name, tokenizer in by_column.items()],
        "keep_text": keep_text,
    }
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    path = pathlib.Path(directory) / key
    if (cache := _open(path, key, logging.DEBUG)) is not None:
        return cache
    _make_directory(path.parent)
    with _lock(path.with_suffix(".lock")):
        # Another process may have built it while this one waited.
        if (cache := _open(path, key, logging.WARNING)) is not None:
            return cache
        _remove_leftovers(path)
        with _full_disk_explained(path.parent), atomic_directory(path) as temporary:
            sizes = {name: each.vocabulary_size for name, each in by_column.items()}
            with CacheWriter(temporary, sizes, special_ids, keep_text) as writer:
                for columns in _tokenized_chunks(corpus, list(by_column.values())):
                    writer.append(columns)
                    if progress is not None:
                        progress(writer.examples)
                if writer.examples == 0:
                    raise UserError("no examples.", where=corpus.name, fix=NO_EXAMPLES_FIX)
                writer.finish(key)
            if corpus.fingerprint() != fingerprint:
                problem = "changed while it was being tokenized."
                fix = "Run again when its files are complete."
                raise UserError(problem, where=corpus.name, fix=fix)
        return TokenCache(path)


def _find_tokenizers(
    corpus: Corpus, tokenizers: ColumnTokenizer | Mapping[str, ColumnTokenizer]
) -> tuple[dict[str, ColumnTokenizer], SpecialIds]:
    """Returns the tokenizer of each column, and the special ids that those of texts share."""
    if not isinstance(tokenizers, Mapping):
        tokenizers = dict.fromkeys(corpus.columns, tokenizers)
    if "label" in corpus.columns and not isinstance(tokenizers.get("label"), LabelIndex):
        raise UserError(
            "Labels are not tokenized as text: `tokenizers` must be a mapping with a `LabelIndex` "
            "for the column 'label', such as {'text': tokenizer, 'label': LabelIndex(labels)}."
        )
    if set(tokenizers) != set(corpus.columns):
        columns = list(corpus.columns)
        raise UserError(f"`tokenizers` must have the columns {columns}; got {sorted(tokenizers)}.")
    by_column = {column: tokenizers[column] for column in corpus.columns}
    special_ids = {
        column: getattr(tokenizer, "special_ids", SpecialIds())
        for column, tokenizer in by_column.items()
        if column != "label"
    }
    if len(set(special_ids.values())) > 1:
        raise UserError(f"`tokenizers` must have the same special ids; got {special_ids}.")
    return by_column, next(iter(special_ids.values()))


def _open(path: pathlib.Path, key: str, log_level: int) -> TokenCache | None:
    """Returns the cache at `path`, or None if there is none or it is damaged."""
    if not path.exists():
        return None
    try:
        cache = TokenCache(path)
        if cache.key != key:
            raise DamagedCacheError(f"{path}: made from something else ({cache.key}).")
    except DamagedCacheError as error:
        message = "The token cache is damaged and will be built again. %s"
        logger.log(log_level, message, shown(str(error)))
        return None
    return cache


def _make_directory(directory: pathlib.Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        problem = f"cannot contain the token cache ({error.strerror})."
        fix = "Give a directory that can be written."
        raise UserError(problem, where=directory, fix=fix) from error


@contextlib.contextmanager
def _lock(path: pathlib.Path) -> Iterator[None]:
    """Holds a lock that the system releases if this process ends."""
    lock = filelock.FileLock(path)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        logger.info("Another process is building this token cache: waiting for it.")
        lock.acquire(poll_interval=0.05)
    try:
        yield
    finally:
        lock.release()


def _remove_leftovers(path: pathlib.Path) -> None:
    """Removes a damaged cache, and files of a killed process; the caller holds the lock."""
    for leftover in [path, *path.parent.glob(f".{path.name}.*")]:
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def _full_disk_explained(directory: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        problem = f"{error.strerror} while writing the token cache: free disk space, or move it"
        raise OSError(error.errno, problem, str(directory)) from error


def _tokenized_chunks(corpus: Corpus, tokenizers: Sequence[ColumnTokenizer]) -> Iterator[_Chunk]:
    """Yields the corpus' chunks in order, tokenized in as many threads as there are cores."""
    # TensorFlow's operations run outside Python's global lock. Unlike in a `tf.data.Dataset`, an
    # error of the corpus keeps its type.
    cores = len(available_cores())
    pending: collections.deque[concurrent.futures.Future[_Chunk]] = collections.deque()
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


def _chunks(corpus: Corpus) -> Iterator[list[Example]]:
    chunk: list[Example] = []
    characters = 0
    for example in corpus:
        chunk.append(example)
        characters += sum(map(len, example))
        if len(chunk) == _CHUNK_EXAMPLES or characters > _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _tokenize(chunk: list[Example], tokenizers: Sequence[ColumnTokenizer]) -> _Chunk:
    columns = []
    for tokenizer, strings in zip(tokenizers, zip(*chunk, strict=True), strict=True):
        texts = [string.encode() for string in strings]
        ragged = _with_inner_template(tokenizer, tokenizer.tokenize(tf.constant(texts)))
        columns.append((ragged.values.numpy(), np.diff(ragged.row_splits.numpy()), texts))
    return columns


def _with_inner_template(tokenizer: ColumnTokenizer, ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns ids with those of the tokenizer's template but the end id, which batches add."""
    if not isinstance(tokenizer, Tokenizer) or not tokenizer.template.ids:
        return ids
    if tokenizer.template.suffix[-1:] != (tokenizer.special_ids.end,):
        fix = "Use the model as it is; it cannot be trained."
        raise UserError(
            f"Sources of this {tokenizer.registered_name!r} have ids after the end.", fix=fix
        )
    return tokenizer.with_template(ids)[:, :-1]
