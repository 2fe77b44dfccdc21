"""Tokenizers of the source and the target of a task."""

import pathlib
from typing import Self

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer._utils.types import Path
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.tokenizer import Tokenizer, load_tokenizer

_SHARED, _SOURCE, _TARGET = "shared", "source", "target"


class TokenizerPair(tf.Module):
    """Tokenizer of the source and tokenizer of the target, which may be the same.

    With a shared vocabulary, a model can tie the embeddings of both sides, and names and numbers
    have the same pieces in both. Separate vocabularies suit languages with different scripts. Both
    sides must have the same special ids.

    >>> from keras_transformer.text import ByteTokenizer
    >>> pair = TokenizerPair(ByteTokenizer())
    >>> pair.is_shared, pair.target.vocabulary_size
    (True, 260)

    Args:
        source: Tokenizer of the source.
        target: Tokenizer of the target. Defaults to that of the source, which is then shared.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer | None = None) -> None:
        super().__init__()
        if target is not None and target.special_ids != source.special_ids:
            both = f"{source.special_ids} and {target.special_ids}"
            raise UserError(f"Source and target must have the same special ids; got {both}.")
        self.source: Tokenizer = source
        # Equal tokenizers are shared, even if they are separate objects.
        if target is None or target.hash == source.hash:
            target = source
        self.target: Tokenizer = target

    @classmethod
    def of(cls, tokenizers: "Tokenizer | TokenizerPair") -> "TokenizerPair":
        """Returns the pair that is given, or the pair with a given tokenizer on both sides."""
        return cls(tokenizers) if isinstance(tokenizers, Tokenizer) else tokenizers

    @property
    def is_shared(self) -> bool:
        """True if both sides have one vocabulary."""
        return self.target is self.source

    @property
    def special_ids(self) -> SpecialIds:
        """`SpecialIds` of both sides."""
        return self.source.special_ids

    def save(self, directory: Path) -> None:
        """Writes both into a new directory atomically; a shared tokenizer is stored once."""
        with atomic_directory(directory) as temporary:
            if self.is_shared:
                self.source.save(temporary / _SHARED)
            else:
                self.source.save(temporary / _SOURCE)
                self.target.save(temporary / _TARGET)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Returns the pair that `save` wrote into `directory`."""
        directory = pathlib.Path(directory)
        if (directory / _SHARED).is_dir():
            return cls(load_tokenizer(directory / _SHARED))
        if (directory / _SOURCE).is_dir() or (directory / _TARGET).is_dir():
            return cls(load_tokenizer(directory / _SOURCE), load_tokenizer(directory / _TARGET))
        raise UserError(
            f"no pair of tokenizers here: neither {_SHARED!r} nor {_SOURCE!r} and {_TARGET!r}.",
            where=directory,
            fix="Give the directory that `TokenizerPair.save` wrote.",
        )
