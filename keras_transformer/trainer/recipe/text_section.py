"""The recipe's `text`: how strings become ids."""

import dataclasses
import warnings
from collections.abc import Mapping

from keras_transformer.checks import (
    require_boolean,
    require_choice,
    require_mapping,
    require_positive_integer,
    require_share,
)
from keras_transformer.trainer.recipe.section import Section, or_null, setting, with_dotted_names

#: That of `keras-transformer data`, so that its report is about the same vocabulary.
DEFAULT_SIZE = 8000


def _require_tokenizer(name, value):
    from keras_transformer.text import registered_tokenizers

    return require_choice(name, value, registered_tokenizers())


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSection(Section):
    """How strings become ids.

    Attributes:
        tokenizer: "sentencepiece", "wordpiece" or "bytes".
        vocabulary_size: ids to learn, the four special ones included; null is 8,000, or 260 where
            the ids are bytes.
        shared: whether source and target have one vocabulary, as in the paper.
        options: of the tokenizer, such as `{model: bpe}`; see `learn_tokenizer`.
        maximum_passages: a larger corpus is sampled down to so many lines to learn from.
        sampling: how wildly training texts are cut at random, anew in each epoch: `alpha` of
            `SentencePieceTokenizer.sample`; 0 is not at all. Of a unigram model the smaller is the
            wilder (Kudo 2018: 0.2); of a BPE model, the larger (Provilkov et al. 2020: 0.1). Texts
            become longer by it, and epochs slower: Multi30k's by a third at 0.1 of BPE.
        sampled: the texts of a translation that are cut so: "source", or "both", as in the two
            papers. A language model has only one.
    """

    key = "text"

    tokenizer: str = setting("sentencepiece", _require_tokenizer)
    vocabulary_size: int | None = setting(None, or_null(require_positive_integer))
    shared: bool = setting(True, require_boolean)
    options: Mapping = setting({}, require_mapping)
    maximum_passages: int = setting(200_000, require_positive_integer)
    sampling: float = setting(0.0, require_share)
    sampled: str = setting("source", require_choice, choices=("source", "both"))

    def __post_init__(self):
        super().__post_init__()
        if self.vocabulary_size is None:
            object.__setattr__(self, "vocabulary_size", self._fixed_size() or DEFAULT_SIZE)

    def disagreements(self):
        try:
            size = self._fixed_size()
        except ValueError as error:
            names = {name: f"text.{name}" for name in ("vocabulary_size", "maximum_passages")}
            names |= {name: f"text.options.{name}" for name in self.options}
            yield with_dotted_names(str(error), names | {"option": "text.options"}, "text.options")
            return
        if size is not None and self.vocabulary_size not in (None, size):
            yield (
                f"`text.vocabulary_size` must be {size} for {self.tokenizer!r}; got "
                f"{self.vocabulary_size}. Leave it out."
            )
        if self.sampling and self.tokenizer != "sentencepiece":
            yield (
                f"`text.sampling` must be 0 for {self.tokenizer!r}, which cuts each text in one "
                f"way; got {self.sampling}. Or set `text.tokenizer` to sentencepiece."
            )
        if self.sampling == 1 and self.options.get("model") == "bpe":
            yield (
                "`text.sampling` must be below 1 for a BPE model: with all merges left out there "
                "are only letters; got 1.0."
            )

    def _fixed_size(self):
        """The size of a vocabulary that is not learned, or None. Raises what learning would raise.

        It is a rehearsal, so that the tokenizer's own checks run before any corpus is read: one
        that learns asks for the first line, and is stopped there.
        """
        import tensorflow as tf

        from keras_transformer.text import learn_tokenizer

        try:
            # In a graph of its own: TensorFlow must not start before it knows of other workers.
            with warnings.catch_warnings(), tf.Graph().as_default():
                warnings.simplefilter("ignore")
                tokenizer = learn_tokenizer(
                    self.tokenizer,
                    _stop_at_first_line(),
                    self.vocabulary_size or DEFAULT_SIZE,
                    maximum_passages=self.maximum_passages,
                    progress=lambda *_: None,
                    **self.options,
                )
        except _LineWantedError:
            return None
        return tokenizer.vocabulary_size


class _LineWantedError(Exception):
    """A tokenizer is content with its settings and wants to read."""


def _stop_at_first_line():
    raise _LineWantedError
    yield
