"""What one watches while training: accuracy and perplexity over the tokens, without padding."""

import keras
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer.losses.cross_entropy import token_totals


class TokenMean(keras.metrics.Metric):
    """The mean of some number over all tokens seen since the last reset.

    Every token has the same weight, whatever batch, replica or padded length it came in: the state
    is the total over all tokens, and their number. Subclasses say what is averaged, in `total_of`.
    Of the metrics given to `compile`, Keras hands sample weights to `weighted_metrics` only.

    Args:
        padding_id: the label of positions that do not count.
        name: name of the metric.
        dtype: type of the result.
    """

    def __init__(self, padding_id=0, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.padding_id = checks.require_integer("padding_id", padding_id, minimum=0)
        # A float32 sum stops growing by ones at 2^24, fewer tokens than an epoch may have.
        self.total = self.add_variable((), "zeros", dtype="float64", name="total")
        self.count = self.add_variable((), "zeros", dtype="float64", name="count")

    def total_of(self, totals):
        """Picks the number to be averaged out of a batch's `TokenTotals`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `total_of`.")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: token ids, whole numbers [B, T] or [N].
            y_pred: logits [B, T, V] or [N, V].
            sample_weight: optional weights of rows [B] or of tokens, shaped as `y_true`.
        """
        totals = token_totals(
            y_true, y_pred, padding_id=self.padding_id, sample_weight=sample_weight
        )
        self.total.assign_add(tf.cast(self.total_of(totals), tf.float64))
        self.count.assign_add(tf.cast(totals.tokens, tf.float64))

    def mean(self):
        """Returns the mean in float64; 0 without any token."""
        total, count = tf.convert_to_tensor(self.total), tf.convert_to_tensor(self.count)
        return tf.math.divide_no_nan(total, count)

    def result(self):
        return tf.cast(self.mean(), self.dtype)

    def get_config(self):
        return {**super().get_config(), "padding_id": self.padding_id}


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMean):
    """The share of tokens whose label has the highest logit. Without any token it is 0.

    Args:
        padding_id: the label of positions that do not count.
        name: name of the metric.
        dtype: type of the result.

    Example:

    >>> metric = TokenAccuracy()
    >>> metric.update_state([[1, 2, 0]], [[[0.0, 9.0, 1.0], [0.0, 9.0, 1.0], [0.0, 9.0, 1.0]]])
    >>> float(metric.result())
    0.5
    """

    def __init__(self, padding_id=0, name="token_accuracy", dtype=None):
        super().__init__(padding_id=padding_id, name=name, dtype=dtype)

    def total_of(self, totals):
        return totals.right


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """The exponential of the tokens' mean cross-entropy: 1 is certainty, V a blind guess.

    Label smoothing has no part in it, and it is not a mean of the batches' perplexities. Without
    any token it is 1, the exponential of 0.

    Args:
        padding_id: the label of positions that do not count.
        name: name of the metric.
        dtype: type of the result.

    Example:

    >>> metric = Perplexity()
    >>> metric.update_state([[5, 2, 0]], tf.zeros([1, 3, 8]))
    >>> round(float(metric.result()), 4)
    8.0
    """

    def __init__(self, padding_id=0, name="perplexity", dtype=None):
        super().__init__(padding_id=padding_id, name=name, dtype=dtype)

    def total_of(self, totals):
        return totals.cross_entropy

    def result(self):
        return tf.cast(tf.exp(self.mean()), self.dtype)
