"""What is counted over the tokens of a batch, in training and in evaluation alike."""

import dataclasses
import math

import tensorflow as tf

from keras_transformer.losses import token_totals, token_weights

#: What is summed up over tokens, in the order of `TokenTotals`.
SUMS = ("loss", "cross_entropy", "right", "tokens")


def token_sums(loss, labels, logits, consistency=0.0):
    """The `TokenTotals` of a batch under a `TokenCrossEntropy`; see there for `consistency`."""
    return token_totals(
        labels, logits, loss.label_smoothing, loss.padding_id, consistency=consistency
    )


def count_tokens(loss, labels):
    """The number of tokens of a batch that are not padding, a float32 scalar."""
    return tf.reduce_sum(token_weights(labels, loss.padding_id))


@dataclasses.dataclass(frozen=True)
class TokenStatistics:
    """Sums over tokens, as Python's floats of 64 bits, that add up over any number of batches.

    >>> one = TokenStatistics(loss=3.0, cross_entropy=2.0, right=1.0, tokens=2.0)
    >>> (one + TokenStatistics()).logs()
    {'loss': 1.5, 'accuracy': 0.5, 'perplexity': 2.718281828459045}
    """

    loss: float = 0.0
    cross_entropy: float = 0.0
    right: float = 0.0
    tokens: float = 0.0

    def __add__(self, other):
        return TokenStatistics(*(getattr(self, name) + getattr(other, name) for name in SUMS))

    def logs(self):
        """Returns the means over the tokens by the names under which they are watched."""
        tokens = max(self.tokens, 1.0)
        mean = self.cross_entropy / tokens
        return {
            "loss": self.loss / tokens,
            "accuracy": self.right / tokens,
            # Beyond exp(700) there are no floats; such a model is no nearer to knowing anything.
            "perplexity": math.exp(min(mean, 700.0)),
        }
