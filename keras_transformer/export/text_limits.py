"""How much text an exported model takes in at once."""

import dataclasses

import tensorflow as tf

from keras_transformer.checks import require_positive_integer

#: No piece is longer than that: SentencePiece's have 16 characters at most.
BYTES_OF_A_TOKEN = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextLimits:
    """Bounds that keep time and memory of a request bounded, whatever the strings.

    Attributes:
        tokens: tokens of a text at most; what comes after them is not seen. (Nor is what comes
            after 64 times as many bytes, so that a huge string is not even tokenised.)
        tokens_at_once: a batch is sorted by length and cut into sub-batches of so many tokens,
            padding included.
        rows_at_once: and of so many rows.
    """

    tokens: int
    tokens_at_once: int = 4096
    rows_at_once: int = 128

    def __post_init__(self):
        for field in dataclasses.fields(self):
            require_positive_integer(field.name, getattr(self, field.name))

    def cut(self, texts, keep="start", bytes_of_a_token=BYTES_OF_A_TOKEN):
        """Texts `[B]` of which only what can be seen is left, at the "start" or the "end".

        Args:
            texts: strings `[B]`.
            keep: which end of them is seen.
            bytes_of_a_token: no token can stand for more of them.
        """
        size = self.tokens * bytes_of_a_token
        first = tf.zeros_like(texts, tf.int32)
        if keep == "end":
            first = tf.maximum(tf.strings.length(texts) - size, 0)
        return tf.strings.substr(texts, first, tf.fill(tf.shape(first), size))
