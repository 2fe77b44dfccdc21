"""The one interface between strings and ids, and the registry of those who offer it."""

import functools

import numpy as np
import tensorflow as tf

from keras_transformer.checks import require_choice, require_rank
from keras_transformer.errors import UserError
from keras_transformer.text.special_ids import FIRST_PIECE_ID, SPECIAL_NAMES, UNKNOWN_ID
from keras_transformer.text.storage import StoredTokenizer, read_stored, write_stored

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
        """Returns ids as `tokenize` does, cut at random: subword regularisation for training."""
        raise UserError(
            f"A {self.registered_name!r} tokenizer cuts each text in one way only and cannot "
            "sample. Use a 'sentencepiece' tokenizer, or train without subword regularisation."
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
