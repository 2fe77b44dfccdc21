"""The tokenizers of the two sides of a task."""

import pathlib

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer.text.tokenizer import load_tokenizer

SHARED, SOURCE, TARGET = "shared", "source", "target"


class TokenizerPair(tf.Module):
    """A tokenizer for the source and one for the target, which may be the same.

    With a shared vocabulary a model can tie the embeddings of both sides, and names and numbers are
    the same pieces in both. Separate vocabularies suit languages that share no script.

    >>> from keras_transformer.text import ByteTokenizer
    >>> pair = TokenizerPair(ByteTokenizer())
    >>> pair.is_shared, pair.target.vocabulary_size
    (True, 260)

    Args:
        source: The source's `Tokenizer`.
        target: The target's; by default the source's, which is then shared.
    """

    def __init__(self, source, target=None):
        super().__init__()
        self.source = source
        # Equal tokenizers are one, however they were made.
        is_other = target is not None and target.hash != source.hash
        self.target = target if is_other else source

    @property
    def is_shared(self):
        """Whether both sides have one vocabulary."""
        return self.target is self.source

    def save(self, directory):
        """Writes both into a new directory, whole or not at all; what is shared is stored once."""
        with atomic_directory(directory) as temporary:
            if self.is_shared:
                self.source.save(temporary / SHARED)
            else:
                self.source.save(temporary / SOURCE)
                self.target.save(temporary / TARGET)

    @classmethod
    def load(cls, directory):
        """Returns the pair that `save` wrote into `directory`."""
        directory = pathlib.Path(directory)
        if (directory / SHARED).is_dir():
            return cls(load_tokenizer(directory / SHARED))
        if (directory / SOURCE).is_dir() or (directory / TARGET).is_dir():
            return cls(load_tokenizer(directory / SOURCE), load_tokenizer(directory / TARGET))
        raise UserError(
            f"{directory}: holds no pair of tokenizers, neither {SHARED!r} nor {SOURCE!r} and "
            f"{TARGET!r}. Give the directory that `TokenizerPair.save` wrote."
        )
