"""The one interface between strings and ids, and the registry of those who offer it."""

import dataclasses
import functools
import hashlib
import json
import pathlib

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_choice, require_rank
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory

PADDING_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3

# For a person's eyes only (labels of attention maps, listings). Texts are never compared with them.
SPECIAL_NAMES = ("<padding>", "<unknown>", "<start>", "<end>")
FIRST_PIECE_ID = len(SPECIAL_NAMES)


DESCRIPTION = "tokenizer.json"
VERSION = 1


@dataclasses.dataclass(frozen=True)
class StoredTokenizer:
    """What is stored of a tokenizer: all that decides its ids.

    Args:
        name: The registered name of its class.
        settings: A dictionary for JSON.
        file_name: The name of the vocabulary or model file, or None.
        content: The bytes of that file.
    """

    name: str
    settings: dict
    file_name: str | None
    content: bytes

    @property
    def hash(self):
        """The sha256, in hex, of name, settings and content."""
        header = json.dumps([self.name, self.settings], sort_keys=True).encode()
        return hashlib.sha256(header + b"\n" + self.content).hexdigest()


def write_stored(stored, directory):
    """Writes `stored` into the new directory `directory`, whole or not at all."""
    description = {
        "name": stored.name,
        "settings": stored.settings,
        "version": VERSION,
        "file": stored.file_name,
        "sha256": stored.hash,
    }
    text = json.dumps(description, indent=2) + "\n"
    with atomic_directory(directory) as temporary:
        (temporary / DESCRIPTION).write_text(text, encoding="utf-8")
        if stored.file_name is not None:
            (temporary / stored.file_name).write_bytes(stored.content)


def read_stored(directory):
    """Returns the `StoredTokenizer` in `directory`; a `UserError` names what is wrong with it."""
    directory = pathlib.Path(directory)
    description = _read_description(directory)
    file_name = description["file"]
    content = b"" if file_name is None else _read(directory, file_name)
    stored = StoredTokenizer(description["name"], description["settings"], file_name, content)
    if stored.hash != description["sha256"]:
        raise UserError(
            f"{directory / (file_name or DESCRIPTION)}: damaged, the sha256 in {DESCRIPTION} is "
            "another. Copy the directory again, or learn the tokenizer again."
        )
    return stored


def _read_description(directory):
    path = directory / DESCRIPTION
    content = _read(directory, DESCRIPTION)
    try:
        description = json.loads(content)
    except ValueError as error:
        raise UserError(
            f"{path}: damaged, not JSON ({error}). Copy the directory again."
        ) from error
    wanted = {"name": str, "settings": dict, "version": int, "file": str | None, "sha256": str}
    for key, kind in wanted.items():
        if not isinstance(description, dict) or not isinstance(description.get(key), kind):
            raise UserError(
                f"{path}: not the description of a tokenizer, {key!r} is missing or wrong. "
                "Give the directory that `Tokenizer.save` wrote."
            )
    if description["version"] != VERSION:
        raise UserError(
            f"{path}: in version {description['version']} of the format, but this package reads "
            f"version {VERSION}. Use the keras_transformer that wrote it, or learn it again."
        )
    file_name = description["file"]
    if file_name is not None and pathlib.PurePath(file_name).name != file_name:
        raise UserError(
            f"{path}: 'file' must be a name in the same directory; got {file_name!r}. "
            "Give the directory that `Tokenizer.save` wrote."
        )
    return description


def _read(directory, file_name):
    path = directory / file_name
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"{directory}: holds no tokenizer, {file_name} is missing. "
            "Give the directory that `Tokenizer.save` wrote."
        ) from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from error


_REGISTRY = {}


class Tokenizer(tf.Module):
    """Turns strings into ids and ids into strings, in the graph.

    A tokenizer is a `tf.Module` without variables: hold it as an attribute of a module that is
    saved with `tf.saved_model.save`, and the SavedModel takes and gives strings. It never changes
    once made.

    A new kind is a new file in this package with a subclass that names itself:

    ```python
    class MorseTokenizer(Tokenizer, registered_name="morse"): ...
    ```

    It passes its pieces (all but the four special ids) to `Tokenizer.__init__` and answers
    `normalize`, `_split`, `_join`, `settings`, `to_bytes` and `from_bytes`, `word_sizes` and
    `_sizes_of_pieces` if it is to be used with trees, and `learn` if it can be learned.

    Args:
        pieces: The pieces as a person reads them, in the order of their ids; the first has id 4.
    """

    registered_name = None
    #: The name under which `to_bytes()` is stored in a tokenizer's directory.
    file_name = None
    #: Whether there are texts that it cannot spell, and gives the id UNKNOWN for.
    has_unknowns = False
    #: How much of a text the id UNKNOWN takes up, if it is ever given; see `word_sizes`.
    unknown_size = 0

    def __init_subclass__(cls, registered_name, **keywords):
        super().__init_subclass__(**keywords)
        cls.registered_name = registered_name
        _REGISTRY[registered_name] = cls

    def __init__(self, pieces):
        super().__init__()
        self._vocabulary = (*SPECIAL_NAMES, *pieces)
        with tf.init_scope():
            self._labels = tf.constant(self._vocabulary)

    # Strings to ids and back.

    def tokenize(self, strings):
        """Returns the ids of strings [B], without start and end: int32 `RaggedTensor` [B, None]."""
        ids = self._split(as_strings(strings))
        return tf.cast(ids, tf.int32)

    def detokenize(self, ids):
        """Returns a string [B] for each row of ids: a `tf.RaggedTensor` or a padded tensor [B, T].

        The special ids vanish, and so do numbers that are no ids of this vocabulary.
        """
        ids = as_rows(ids)
        pieces = tf.ragged.boolean_mask(ids, ids.with_values(self._is_piece(ids.values)))
        return self._join(tf.cast(pieces, tf.int32))

    def spellings(self, strings):
        """Returns what each token of `tokenize(strings)` stands for in the text, [B, None].

        For copying what cannot be translated: a token that starts a word has a space before it, and
        an unknown one is spelt as it stands in the text.
        """
        return self.tokens(self.tokenize(strings))

    # Words.

    def word_sizes(self, words):
        """Returns how much of a text each of its words takes up, int32 `RaggedTensor` [B, None].

        The text is the words with a space between them. What is counted is the tokenizer's own
        affair, the same as in `token_sizes`; see `number_words`.

        Args:
            words: strings, a `RaggedTensor` [B, None].
        """
        raise UserError(
            f"A {self.registered_name!r} tokenizer does not tell which word a token belongs to: it "
            "cannot be used with trees. Use a 'sentencepiece', 'wordpiece' or 'bytes' tokenizer, "
            "or implement `word_sizes` and `_sizes_of_pieces`."
        )

    @functools.cached_property
    def token_sizes(self):
        """How much of a text each id takes up, an int32 array [V]; see `word_sizes`."""
        return np.array([0, self.unknown_size, 0, 0, *self._sizes_of_pieces()], np.int32)

    def _sizes_of_pieces(self):
        """Yields how much of a text each piece takes up, in the order of their ids."""
        raise NotImplementedError

    def _is_piece(self, ids):
        return (ids >= FIRST_PIECE_ID) & (ids < self.vocabulary_size)

    def normalize(self, strings):
        """Returns what `detokenize(tokenize(strings))` gives if nothing is unknown; a graph op."""
        raise NotImplementedError

    def sample(self, strings, seed):
        """Returns ids as `tokenize` does, cut at random: subword regularization for training."""
        raise UserError(
            f"A {self.registered_name!r} tokenizer cuts each text in one way only and cannot "
            "sample. Use a 'sentencepiece' tokenizer, or train without subword regularization."
        )

    def _split(self, strings):
        """Ids (RaggedTensor [B, None]) of strings (Tensor [B])."""
        raise NotImplementedError

    def _join(self, ids):
        """Strings [B] of ids (int32 RaggedTensor [B, None]) that are all pieces."""
        raise NotImplementedError

    # The vocabulary.

    @property
    def vocabulary_size(self):
        """The number of ids, the four special ones included."""
        return len(self._vocabulary)

    def vocabulary(self):
        """Returns what a person reads for each id, a list of `vocabulary_size` strings."""
        return list(self._vocabulary)

    def tokens(self, ids):
        """Returns, in the shape of `ids`, the string that a person reads for each; a graph op.

        Numbers that are no ids of this vocabulary read as unknown.
        """
        if isinstance(ids, tf.RaggedTensor):
            return ids.with_flat_values(self.tokens(ids.flat_values))
        ids = tf.cast(ids, tf.int64)
        is_known = (ids >= 0) & (ids < self.vocabulary_size)
        return tf.gather(self._labels, tf.where(is_known, ids, UNKNOWN_ID))

    def require_vocabulary_size(self, size, owner):
        """Raises a `UserError` with both sizes unless `owner` has as many ids.

        Args:
            size: The number of ids that `owner` has.
            owner: What has them, for the message: for example "The model's embedding".
        """
        if size != self.vocabulary_size:
            raise UserError(
                f"{owner} has {size} ids, but the {self.registered_name!r} tokenizer has "
                f"{self.vocabulary_size}. Use the tokenizer that the model was trained with."
            )

    # Identity and storage.

    @property
    def hash(self):
        """The sha256, in hex, of all that decides the ids; the same in every process."""
        return self._stored().hash

    def settings(self):
        """Returns what `from_bytes` needs besides the bytes, as a dictionary for JSON."""
        return {}

    def to_bytes(self):
        """Returns the content of the vocabulary or model file; empty if there is none."""
        return b""

    @classmethod
    def from_bytes(cls, content, settings, origin):
        """Makes the tokenizer again from `to_bytes()` and `settings()`; errors name `origin`."""
        raise NotImplementedError

    def save(self, directory):
        """Writes the tokenizer into a new directory, whole or not at all, for `load_tokenizer`."""
        write_stored(self._stored(), directory)

    def _stored(self):
        return StoredTokenizer(
            self.registered_name, self.settings(), self.file_name, self.to_bytes()
        )

    # Learning.

    @classmethod
    def learn(cls, read_passages, vocabulary_size, report):
        """Makes a tokenizer from text, for `learn_tokenizer`.

        Further keyword arguments of a subclass are options of `learn_tokenizer`.

        Args:
            read_passages: A callable that reads the corpus and returns a list of strings, none of
                them blank.
            vocabulary_size: The number of ids wanted; fewer are allowed when the text has no more
                to give.
            report: A callable `report(stage, done, total)`; `total` may be None.
        """
        raise NotImplementedError


def tokenizer_class(name):
    """Returns the class that registered itself under `name`.

    >>> tokenizer_class("bytes").__name__
    'ByteTokenizer'
    """
    return _REGISTRY[require_choice("tokenizer", name, _REGISTRY)]


def registered_tokenizers():
    """Returns the names of all tokenizers, sorted.

    >>> "bytes" in registered_tokenizers()
    True
    """
    return sorted(_REGISTRY)


def load_tokenizer(directory):
    """Returns the tokenizer that `Tokenizer.save` wrote into `directory`.

    What is missing, damaged or foreign raises a `UserError` that names it.

    >>> import tempfile
    >>> from keras_transformer.text import ByteTokenizer
    >>> directory = tempfile.mkdtemp() + "/tokenizer"
    >>> ByteTokenizer().save(directory)
    >>> load_tokenizer(directory).vocabulary_size
    260
    """
    stored = read_stored(directory)
    if stored.name not in _REGISTRY:
        known = ", ".join(registered_tokenizers())
        raise UserError(
            f"{directory}: there is no tokenizer named {stored.name!r}; known are {known}. Use the "
            "keras_transformer that wrote it, or learn the tokenizer again."
        )
    return _REGISTRY[stored.name].from_bytes(stored.content, stored.settings, directory)


def as_strings(strings):
    """Returns `strings` as a string tensor [B]."""
    strings = tf.convert_to_tensor(strings, tf.string)
    if strings.shape.rank is not None:
        require_rank("strings", strings, {1: "B"})
    return tf.ensure_shape(strings, [None])


def as_rows(ids):
    """Returns `ids`, ragged or padded [B, T], as an int64 RaggedTensor [B, None]."""
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.convert_to_tensor(ids)
    if ids.shape.rank is not None:
        require_rank("ids", ids, {2: "B, T"})
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.RaggedTensor.from_tensor(tf.ensure_shape(ids, [None, None]))
    return tf.cast(ids, tf.int64)
