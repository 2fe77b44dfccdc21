"""How long what a search finds may be."""

import dataclasses

import tensorflow as tf

from keras_transformer.checks import (
    require_integer,
    require_not_negative,
    require_positive_integer,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LengthLimits:
    """The most and the fewest tokens of a hypothesis, absolutely and relative to its source.

    Lengths count the tokens that are chosen, the END token among them and a forced prefix not. At
    its maximum length a hypothesis is made to end; before its minimum it is kept from ending.

    The default is that of Vaswani et al. 2017: as many tokens as the source has, and 50 more.

    Attributes:
        maximum: never more tokens than this.
        maximum_ratio, maximum_margin: nor more than the ratio times the tokens of the source, plus
            the margin; a ratio of None leaves the source out of it. (A model without a source takes
            the forced prefix, its prompt, for one.)
        minimum: never fewer tokens than this; 1 allows an empty text, END alone.
        minimum_ratio: nor fewer than the ratio times the tokens of the source.

    >>> limits = LengthLimits(maximum=100, maximum_ratio=1.5, maximum_margin=5)
    >>> limits.rows(tf.constant([4, 200]))[1].numpy()
    array([ 11, 100], dtype=int32)
    """

    maximum: int = 256
    maximum_ratio: float | None = 1.0
    maximum_margin: int = 50
    minimum: int = 1
    minimum_ratio: float = 0.0

    def __post_init__(self):
        require_positive_integer("maximum", self.maximum)
        require_positive_integer("minimum", self.minimum)
        if self.maximum_ratio is not None:
            require_not_negative("maximum_ratio", self.maximum_ratio)
        require_integer("maximum_margin", self.maximum_margin, 0)
        require_not_negative("minimum_ratio", self.minimum_ratio)
        if self.minimum > self.maximum:
            raise ValueError(
                f"`minimum` must not be more than `maximum`; got {self.minimum} and {self.maximum}."
            )

    def longest(self, source_tokens):
        """The maximum for sources of `source_tokens`, an integer tensor of any shape."""
        if self.maximum_ratio is None:
            return tf.fill(tf.shape(source_tokens), self.maximum)
        relative = _times(self.maximum_ratio, source_tokens) + self.maximum_margin
        return tf.clip_by_value(relative, 1, self.maximum)

    def rows(self, source_tokens):
        """The minima and maxima of rows whose sources have so many tokens, all int32 `[B]`."""
        maxima = self.longest(source_tokens)
        minima = tf.maximum(self.minimum, _times(self.minimum_ratio, source_tokens))
        return tf.minimum(minima, maxima), maxima


def _times(ratio, tokens):
    return tf.cast(tf.floor(ratio * tf.cast(tokens, tf.float32)), tf.int32)
