"""Keras metrics of token predictions: accuracy and perplexity without padding."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer.losses.cross_entropy import TokenTotals, token_totals


class TokenMean(keras.metrics.Metric):
    """Base of the metrics that average a number over all tokens since the last reset.

    Every token has the same weight, in every batch and replica and with any amount of padding: the
    state is the sum over all tokens, and their number. Subclasses implement `total_of`. Keras
    passes sample weights only to the `weighted_metrics` of `compile`.

    Args:
        padding_id: Integer. Positions with this label do not count. Default 0.
        name: Name of the metric. Default `default_name` of the class.
        dtype: Dtype of the result.
    """

    #: Name of the metric if none is given.
    default_name: ClassVar[str | None] = None

    def __init__(self, padding_id: int = 0, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or self.default_name, dtype=dtype)
        self.padding_id: int = checks.require_integer("padding_id", padding_id, minimum=0)
        # A float32 sum of ones stops growing at 2^24, fewer tokens than an epoch may have.
        self.total: keras.Variable = self.add_variable((), "zeros", dtype="float64", name="total")
        self.count: keras.Variable = self.add_variable((), "zeros", dtype="float64", name="count")

    def total_of(self, totals: TokenTotals) -> tf.Tensor:
        """Returns the sum of the averaged number from the `TokenTotals` of a batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement `total_of`.")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: Token ids, whole numbers `[B, T]` or `[N]`.
            y_pred: Logits `[B, T, V]` or `[N, V]`.
            sample_weight: Weights of rows `[B]` or of tokens, shaped as `y_true`. Optional.
        """
        totals = token_totals(y_true, y_pred, None, self.padding_id, sample_weight)
        self.total.assign_add(tf.cast(self.total_of(totals), tf.float64))
        self.count.assign_add(tf.cast(totals.tokens, tf.float64))

    def mean(self) -> tf.Tensor:
        """Returns the mean in float64; 0 without any token."""
        total, count = tf.convert_to_tensor(self.total), tf.convert_to_tensor(self.count)
        return tf.math.divide_no_nan(total, count)

    def result(self) -> tf.Tensor:
        return tf.cast(self.mean(), self.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "padding_id": self.padding_id}


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMean):
    """Share of tokens whose label has the highest logit; 0 without any token.

    Args:
        padding_id: Integer. Positions with this label do not count. Default 0.
        name: Name of the metric. Default "token_accuracy".
        dtype: Dtype of the result.

    >>> metric = TokenAccuracy()
    >>> metric.update_state([[1, 2, 0]], [[[0.0, 9.0, 1.0], [0.0, 9.0, 1.0], [0.0, 9.0, 1.0]]])
    >>> float(metric.result())
    0.5
    """

    default_name = "token_accuracy"

    def total_of(self, totals: TokenTotals) -> tf.Tensor:
        return totals.correct


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """Exponential of the mean cross-entropy of the tokens: 1 at best, V for a uniform guess.

    It does not include label smoothing, and it is not a mean of the perplexities of batches.
    Without any token it is 1, the exponential of 0.

    Args:
        padding_id: Integer. Positions with this label do not count. Default 0.
        name: Name of the metric. Default "perplexity".
        dtype: Dtype of the result.

    >>> metric = Perplexity()
    >>> metric.update_state([[5, 2, 0]], tf.zeros([1, 3, 8]))
    >>> round(float(metric.result()), 4)
    8.0
    """

    default_name = "perplexity"

    def total_of(self, totals: TokenTotals) -> tf.Tensor:
        return totals.cross_entropy

    def result(self) -> tf.Tensor:
        return tf.cast(tf.exp(self.mean()), self.dtype)
