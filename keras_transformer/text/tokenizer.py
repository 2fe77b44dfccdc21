"""Base class of the tokenizers, and how a tokenizer is stored in a directory."""

import dataclasses
import functools
import hashlib
import json
import pathlib
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_rank
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer._utils.types import Path
from keras_transformer.text.registry import TOKENIZERS, registered_tokenizers, tokenizer_class
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template

#: Strings `[B]`: a string tensor, an array, or a sequence of `str` or `bytes`.
Strings: TypeAlias = tf.Tensor | np.ndarray | Sequence[str] | Sequence[bytes]
#: Ids `[B, T]`: padded (a tensor, an array or nested lists) or a `tf.RaggedTensor`.
Ids: TypeAlias = tf.Tensor | tf.RaggedTensor | np.ndarray | Sequence[Sequence[int]]
#: Progress callback `report(stage, done, total)`; `total` is None if it is not known.
Report: TypeAlias = Callable[[str, int, int | None], None]

#: Marks a missing word in rows of the heads of words; 0 is the head of the root.
NO_HEAD = -1

_DESCRIPTION = "tokenizer.json"
_VERSION = 1


class Tokenizer(tf.Module):
    """Base class of tokenizers, which convert strings to ids and back as graph operations.

    A tokenizer is an immutable `tf.Module` without variables. As an attribute of a module that is
    saved with `tf.saved_model.save`, it lets the SavedModel accept and return strings.

    A new kind is a subclass in a new file `<name>_tokenizer.py` of this package, such as `class
    MorseTokenizer(Tokenizer, registered_name="morse")`. It passes its pieces (all tokens but the
    special ones) to `Tokenizer.__init__` and implements `normalize`, `_split`, `_join`, `settings`,
    `to_bytes` and `from_bytes`; also `word_sizes` and `_sizes_of_pieces` if it is used with trees,
    and `learn` and `check_learning` if it can be learned.

    Args:
        pieces: Labels of the pieces, which take all ids that are not special in ascending order.
        special_ids: Defaults to `SpecialIds()`: 0 to 3, so that the first piece has id 4.
        template: Ids around each text, see `with_template`. Defaults to the end id after it.

    A base class of several kinds has no `registered_name`.
    """

    #: Name in the registry.
    registered_name: ClassVar[str]
    #: Name of the file in a tokenizer's directory that holds `to_bytes()`, or None.
    file_name: ClassVar[str | None] = None
    #: Whether some texts cannot be spelled and get the unknown id.
    has_unknowns: ClassVar[bool] = False
    #: Size of an unknown token in the unit of `word_sizes`.
    unknown_size: ClassVar[int] = 0

    def __init_subclass__(cls, registered_name: str | None = None, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if registered_name is not None:
            cls.registered_name = registered_name
            TOKENIZERS[registered_name] = cls

    def __init__(
        self,
        pieces: Iterable[str],
        special_ids: SpecialIds | None = None,
        template: Template | None = None,
    ) -> None:
        super().__init__()
        self.special_ids: SpecialIds = special_ids or SpecialIds()
        self.template: Template = template or Template(suffix=(self.special_ids.end,))
        names, remaining = self.special_ids.names, list(pieces)
        size = len(remaining) + len(names)
        if max(names) >= size:
            expected = f"below the size of the vocabulary, {size} ids"
            raise ArgumentError("special_ids", expected, self.special_ids)
        if self.template.ids and max(self.template.ids) >= size:
            expected = f"below the size of the vocabulary, {size} ids"
            raise ArgumentError("template", expected, self.template)
        labels = iter(remaining)
        self._vocabulary = tuple(names.get(number) or next(labels) for number in range(size))
        with tf.init_scope():
            self._labels = tf.constant(self._vocabulary)

    def tokenize(self, strings: Strings) -> tf.RaggedTensor:
        """Returns the ids of strings `[B]` without start and end: int32 `[B, None]`."""
        return tf.cast(self._split(as_strings(strings)), tf.int32)

    def with_template(self, ids: tf.RaggedTensor, maximum: int | None = None) -> tf.RaggedTensor:
        """Returns rows of ids with the ids of the template around them.

        Args:
            ids: Ids of texts, int32 `[B, None]`, from `tokenize`.
            maximum: Maximum number of ids of a row, at least that of the template: more ids of the
                text are cut off. Default: no limit.
        """
        if maximum is not None:
            ids = ids[:, : max(maximum - self.template.size, 0)]
        batch_size, parts = ids.nrows(), [ids]
        if self.template.prefix:
            prefix = tf.constant([self.template.prefix], ids.dtype)
            parts = [tf.tile(prefix, [batch_size, 1]), *parts]
        if self.template.suffix:
            suffix = tf.constant([self.template.suffix], ids.dtype)
            parts = [*parts, tf.tile(suffix, [batch_size, 1])]
        return tf.concat(parts, axis=1) if len(parts) > 1 else ids

    def detokenize(self, ids: Ids, unknown: tf.Tensor | None = None) -> tf.Tensor:
        """Returns a string `[B]` for each row of ids.

        Special ids, and numbers that are no ids of this vocabulary, are left out.

        Args:
            ids: Padded `[B, T]` or a `tf.RaggedTensor` `[B, None]`.
            unknown: Strings `[B, T]` that replace the unknown ids, such as the `spellings` of the
                source tokens that they translate; ignored by kinds without `has_unknowns`.
        """
        del unknown
        rows = as_rows(ids)
        pieces = tf.ragged.boolean_mask(rows, rows.with_values(self._is_piece(rows.values)))
        return self._join(tf.cast(pieces, tf.int32))

    def spellings(self, strings: Strings) -> tf.RaggedTensor:
        """Returns the text of each token of `tokenize(strings)`: strings `[B, None]`.

        A token that starts a word begins with a space; an unknown token is spelled as in the text.
        Spellings replace tokens that cannot be translated.
        """
        return self.tokens(self.tokenize(strings))

    def normalize(self, strings: Strings) -> tf.Tensor:
        """Returns what `detokenize(tokenize(strings))` returns if no token is unknown."""
        raise NotImplementedError

    def sample(self, strings: Strings, seed: int, alpha: float | None = None) -> tf.RaggedTensor:
        """Returns the ids of a random segmentation, for subword regularization in training.

        Args:
            strings: Strings `[B]`.
            seed: Not negative. The same seed gives the same segmentation.
            alpha: Strength of the randomness; the default depends on the kind.
        """
        problem = f"A {self.registered_name!r} tokenizer has one segmentation and cannot sample."
        fix = "Use a 'sentencepiece' tokenizer, or train without subword regularization."
        raise UserError(problem, fix=fix)

    def _split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids `[B, None]` of strings `[B]`."""
        raise NotImplementedError

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the strings `[B]` of int32 ids `[B, None]` that are all ids of pieces."""
        raise NotImplementedError

    def _is_piece(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns which ids are neither special nor outside the vocabulary."""
        first = int(self.piece_ids[0])
        is_piece = (ids >= first) & (ids < self.vocabulary_size)
        for special_id in self.special_ids.ids:
            if special_id > first:
                is_piece &= ids != special_id
        return is_piece

    def word_sizes(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the size of each word in the text that joins the words with a space.

        Words are strings `[B, None]`, sizes int32 `[B, None]`. `token_sizes` has the same unit.
        """
        problem = f"{type(self).__name__} has no sizes of words and cannot be used with trees."
        fix = "Use another tokenizer, or implement `word_sizes` and `_sizes_of_pieces`."
        raise UserError(problem, fix=fix)

    @functools.cached_property
    def token_sizes(self) -> np.ndarray:
        """Size of each token of the vocabulary in the unit of `word_sizes`, int32 `[V]`."""
        sizes = np.zeros(self.vocabulary_size, np.int32)
        sizes[self.special_ids.unknown] = self.unknown_size
        sizes[self.piece_ids] = list(self._sizes_of_pieces())
        return sizes

    def _sizes_of_pieces(self) -> Iterable[int]:
        """Returns the size of each piece, in the order of their ids."""
        raise NotImplementedError

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, special ids included."""
        return len(self._vocabulary)

    @functools.cached_property
    def piece_ids(self) -> np.ndarray:
        """Ids that are not special, ascending, int32."""
        return np.setdiff1d(np.arange(self.vocabulary_size), self.special_ids.ids).astype(np.int32)

    def vocabulary(self) -> list[str]:
        """Returns a readable label for each id."""
        return list(self._vocabulary)

    def tokens(self, ids: Ids) -> tf.Tensor | tf.RaggedTensor:
        """Returns a readable label for each id, in the shape of `ids`.

        Numbers that are no ids of this vocabulary get the label of the unknown id.
        """
        numbers: Any = ids
        if isinstance(numbers, tf.RaggedTensor):
            return numbers.with_flat_values(self.tokens(numbers.flat_values))
        numbers = tf.cast(numbers, tf.int64)
        is_known = (numbers >= 0) & (numbers < self.vocabulary_size)
        return tf.gather(self._labels, tf.where(is_known, numbers, self.special_ids.unknown))

    def require_vocabulary_size(self, size: int, owner: str) -> None:
        """Raises a `UserError` unless the vocabulary has `size` ids, as its `owner` has.

        The message begins with the owner, such as "The model's embedding".
        """
        if size != self.vocabulary_size:
            tokenizer = f"the {self.registered_name!r} tokenizer has {self.vocabulary_size}"
            fix = "Use the tokenizer that the model was trained with."
            raise UserError(f"{owner} has {size} ids, but {tokenizer}.", fix=fix)

    @property
    def hash(self) -> str:
        """SHA-256, in hex, of everything that determines the ids; the same in every process."""
        return _hash(self.registered_name, self.settings(), self.special_ids, self.to_bytes())

    def settings(self) -> dict[str, Any]:
        """Returns what `from_bytes` needs besides bytes and special ids, as JSON values."""
        return {}

    def to_bytes(self) -> bytes:
        """Returns the content of the vocabulary or model file; empty if there is none."""
        return b""

    @classmethod
    def from_bytes(cls, content: bytes, settings: dict[str, Any], special_ids: SpecialIds) -> Self:
        """Returns the tokenizer with the given `to_bytes()`, `settings()` and `special_ids`."""
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Writes the tokenizer into a new directory atomically, for `load_tokenizer`."""
        description = {
            "name": self.registered_name,
            "settings": self.settings(),
            "special_ids": dataclasses.asdict(self.special_ids),
            "version": _VERSION,
            "file": self.file_name,
            "sha256": self.hash,
        }
        text = json.dumps(description, indent=2) + "\n"
        with atomic_directory(directory) as temporary:
            (temporary / _DESCRIPTION).write_text(text, encoding="utf-8")
            if self.file_name is not None:
                (temporary / self.file_name).write_bytes(self.to_bytes())

    @classmethod
    def check_learning(cls, size: int, special_ids: SpecialIds) -> int | None:
        """Checks arguments of `learn`, options too; returns the size if it is fixed, else None.

        A tokenizer with a fixed vocabulary learns nothing from text and gets no passages.
        """
        return None

    @classmethod
    def learn(cls, passages: list[str], size: int, special_ids: SpecialIds, report: Report) -> Self:
        """Returns a tokenizer learned from text, for `learn_tokenizer`.

        Further keyword arguments of a subclass are options of `learn_tokenizer`.

        Args:
            passages: Lines or parts of lines, none of them blank.
            size: Wanted number of ids; the result may have fewer.
            special_ids: Special ids of the tokenizer.
            report: Progress callback `report(stage, done, total)`; `total` may be None.
        """
        raise NotImplementedError


def number_words(tokenizer: Tokenizer, ids: tf.Tensor, word_sizes: tf.Tensor) -> tf.Tensor:
    """Returns the number, from 1, of the word that each id belongs to: int32 `[B, S]`.

    The text is the words joined with a space. Tokens and words have sizes in the same unit, so
    their cumulative sums show where each ends. The result is exact for all tokenizers of this
    package and for random segmentations too, because no piece extends over the end of a word. Ids
    that belong to no word, such as end, padding and ids after the last word, get 0.

    Args:
        tokenizer: Tokenizer that produced the ids.
        ids: int32 `[B, S]`. Padded ids of texts or of their beginnings, with or without end ids.
        word_sizes: int32 `[B, W]`. Result of `tokenizer.word_sizes` for the words, padded with 0.

    >>> from keras_transformer.text import ByteTokenizer
    >>> tokenizer = ByteTokenizer()
    >>> sizes = tokenizer.word_sizes(tf.ragged.constant([["ja", "so"]])).to_tensor()
    >>> number_words(tokenizer, tokenizer.tokenize(["ja so"]).to_tensor(), sizes).numpy()
    array([[1, 1, 2, 2, 2]], dtype=int32)
    """
    ids = tf.convert_to_tensor(ids)
    places = tf.cumsum(tf.gather(tokenizer.token_sizes, ids), axis=1) - 1  # where each id ends
    # One column more, because `tf.searchsorted` fails on none.
    ends = tf.cumsum(tf.pad(word_sizes, [[0, 0], [0, 1]]), axis=1)  # [B, W + 1]
    numbers = tf.searchsorted(ends, places, side="right") + 1
    special = tokenizer.special_ids
    is_special = (ids == special.padding) | (ids == special.start) | (ids == special.end)
    return tf.where(is_special | (numbers > tf.shape(word_sizes)[1]), 0, numbers)


def load_tokenizer(directory: Path) -> Tokenizer:
    """Returns the tokenizer that `Tokenizer.save` wrote into `directory`.

    A missing, damaged or foreign file raises a `UserError` that names it.

    >>> import tempfile
    >>> from keras_transformer.text import ByteTokenizer
    >>> directory = tempfile.mkdtemp() + "/tokenizer"
    >>> ByteTokenizer().save(directory)
    >>> load_tokenizer(directory).vocabulary_size
    260
    """
    directory = pathlib.Path(directory)
    description = _read_description(directory)
    keys = ("name", "settings", "special_ids", "file")
    name, settings, special_ids, file_name = (description[key] for key in keys)
    content = b"" if file_name is None else _read(directory, file_name)
    if _hash(name, settings, special_ids, content) != description["sha256"]:
        problem = f"damaged: its sha256 is not the one in {_DESCRIPTION}."
        fix = "Copy the directory again, or learn the tokenizer again."
        raise UserError(problem, where=directory / (file_name or _DESCRIPTION), fix=fix)
    if name not in (known := registered_tokenizers()):
        problem = f"there is no tokenizer named {name!r}; known are {', '.join(known)}."
        raise UserError(problem, where=directory, fix=_FIX_VERSION)
    try:
        return tokenizer_class(name).from_bytes(content, settings, special_ids)
    except UserError as error:
        raise error.moved(directory / (error.where or "")) from error
    except TypeError as error:  # settings that the kind does not have
        raise _not_a_description(directory / _DESCRIPTION, "settings") from error


def _hash(name: str, settings: dict[str, Any], special_ids: SpecialIds, content: bytes) -> str:
    parts: list[Any] = [name, settings]
    if special_ids != SpecialIds():  # so that hashes from before this field stay valid
        parts.append(dataclasses.asdict(special_ids))
    header = json.dumps(parts, sort_keys=True).encode()
    return hashlib.sha256(header + b"\n" + content).hexdigest()


#: Size of the largest file of a tokenizer; known vocabularies have a few MB.
MAXIMUM_FILE_BYTES = 1 << 28

_KEYS = {"name": str, "settings": dict, "version": int, "file": str | None, "sha256": str}
_FIX = "Give the directory that `Tokenizer.save` wrote."
_FIX_VERSION = "Use the version of keras_transformer that wrote it, or learn the tokenizer again."


def _read_description(directory: pathlib.Path) -> dict[str, Any]:
    path = directory / _DESCRIPTION
    content = _read(directory, _DESCRIPTION)
    try:
        description = json.loads(content)
    except (ValueError, RecursionError) as error:
        problem = f"damaged: not JSON ({error})."
        raise UserError(problem, where=path, fix="Copy the directory again.") from error
    for key, kind in _KEYS.items():
        is_complete = isinstance(description, dict) and key in description
        if not is_complete or not isinstance(description[key], kind):
            raise _not_a_description(path, key)
    if description["version"] != _VERSION:
        problem = f"has version {description['version']}; this package reads version {_VERSION}."
        raise UserError(problem, where=path, fix=_FIX_VERSION)
    file_name = description["file"]
    if file_name is not None and not _is_file_name(file_name):
        problem = f"'file' must be a name in the same directory; got {file_name!r}."
        raise UserError(problem, where=path, fix=_FIX)
    try:
        special_ids = SpecialIds(**description.get("special_ids", {}))
    except (TypeError, UserError) as error:
        raise _not_a_description(path, "special_ids") from error
    return {**description, "special_ids": special_ids}


def _is_file_name(name: str) -> bool:
    """Returns whether a text is the name of a file, without directories and control characters."""
    return name.isprintable() and pathlib.PurePath(name).name == name


def _not_a_description(path: pathlib.Path, key: str) -> UserError:
    problem = f"not the description of a tokenizer: {key!r} is missing or wrong."
    return UserError(problem, where=path, fix=_FIX)


def _read(directory: pathlib.Path, file_name: str) -> bytes:
    path = directory / file_name
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait for a writer
            raise UserError("not a regular file.", where=path, fix="Copy the directory again.")
        if (size := found.st_size) > MAXIMUM_FILE_BYTES:
            problem = f"{size:,} bytes, but at most {MAXIMUM_FILE_BYTES:,} are read."
            raise UserError(problem, where=path, fix="Give the directory of a tokenizer.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        problem = f"no tokenizer here: {file_name} is missing."
        raise UserError(problem, where=directory, fix=_FIX) from error
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror}).", where=path) from error


def as_strings(strings: Strings) -> tf.Tensor:
    """Returns `strings` as a string tensor `[B]`."""
    tensor = tf.convert_to_tensor(strings, tf.string)
    if tensor.shape.rank is not None:
        require_rank("strings", tensor, {1: "B"})
    return tf.ensure_shape(tensor, [None])


def as_rows(ids: Ids) -> tf.RaggedTensor:
    """Returns `ids`, ragged or padded `[B, T]`, as an int64 `tf.RaggedTensor` `[B, None]`."""
    rows: Any = ids if isinstance(ids, tf.RaggedTensor) else tf.convert_to_tensor(ids)
    if rows.shape.rank is not None:
        require_rank("ids", rows, {2: "B, T"})
    if not isinstance(ids, tf.RaggedTensor):
        rows = tf.RaggedTensor.from_tensor(tf.ensure_shape(rows, [None, None]))
    return tf.cast(rows, tf.int64)
