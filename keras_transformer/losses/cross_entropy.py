"""The training loss: label-smoothed cross-entropy over the tokens that are not padding.

Shapes: B batch, T length, V vocabulary, N = B·T.
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer._utils.configuration import constructor_arguments
from keras_transformer._utils.errors import UserError
from keras_transformer.layers.token_embedding import LogitProjection
from keras_transformer.losses.fused_cross_entropy import (
    fused_cross_entropy_sums,
    logit_of_label,
    symmetric_kl_divergence,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenCrossEntropy(keras.losses.Loss):
    """Label-smoothed cross-entropy, averaged over the tokens that are not padding.

    The value is the sum of the tokens' losses divided by their number, so it does not depend on the
    amount of padding. Only the labels decide which tokens count; an implicit Keras mask of the
    predictions is ignored. A batch without any token gives 0.

    Under `tf.distribute` every replica divides by the number of tokens of all replicas together, so
    that the losses and gradients of the replicas add up to those of the whole batch on one device.
    `fit` needs this, because optimizers add the gradients of the replicas; a custom training loop
    must not divide again.

    Args:
        label_smoothing: Float in [0, 1), see `token_cross_entropy`; 0.1 in Vaswani et al. 2017,
            "Attention Is All You Need", section 5.4. Default 0.
        padding_id: Integer. Positions with this label do not count. Default 0.
        name: Name of the loss.

    Call arguments:
        y_true: Token ids, whole numbers `[B, T]` or `[N]`.
        y_pred: Logits `[B, T, V]` or `[N, V]`.
        sample_weight: Weights of rows `[B]` or of tokens; see `token_totals`. Optional.

    Example: two tokens that could be any of eight, and one padding, have a loss of log(8).

    >>> loss = TokenCrossEntropy(padding_id=0)
    >>> round(float(loss([[5, 2, 0]], tf.zeros([1, 3, 8]))), 4)
    2.0794
    """

    def __init__(
        self, label_smoothing: float = 0.0, padding_id: int = 0, name: str = "token_cross_entropy"
    ) -> None:
        super().__init__(name=name, reduction="mean_with_sample_weight")
        self.label_smoothing: float = checks.require_rate("label_smoothing", label_smoothing)
        self.padding_id: int = checks.require_integer("padding_id", padding_id, minimum=0)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        # The base class would cast the ids to float, apply the mask of `y_pred`, and average over
        # the tokens of each replica alone.
        with tf.name_scope(self.name):
            settings = (self.label_smoothing, self.padding_id)
            totals = token_totals(y_true, y_pred, *settings, sample_weight)
            return tf.math.divide_no_nan(totals.loss, _sum_over_replicas(totals.tokens))

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        return token_cross_entropy(y_true, y_pred, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return constructor_arguments(self)


class TokenTotals(NamedTuple):
    """Sums over the tokens of a batch that count: scalars, of which only `loss` has a gradient."""

    #: Sum of the smoothed cross-entropy.
    loss: tf.Tensor
    #: Sum of the cross-entropy without smoothing.
    cross_entropy: tf.Tensor
    #: Number of tokens whose label has the highest logit.
    correct: tf.Tensor
    #: Number of tokens; with sample weights, the sum of the weights.
    tokens: tf.Tensor


def token_totals(
    labels: Any,
    logits: Any,
    label_smoothing: float | None = None,
    padding_id: int = 0,
    sample_weight: Any = None,
    consistency: float = 0.0,
) -> TokenTotals:
    """Returns the sums over tokens from which losses and metrics are computed.

    Training, evaluation, the loss of `fit` and its metrics all use this function. In a graph, and
    with the logits as the model returned them, output layer and loss are computed together for a
    few hundred tokens at a time, without all logits in memory; see `LogitProjection`.

    Args:
        labels: Token ids, whole numbers `[B, T]` or `[N]`.
        logits: `[B, T, V]` or `[N, V]`.
        label_smoothing: ε in [0, 1) of `loss`. Default None: `loss` is not needed.
        padding_id: Positions with this label do not count. Default 0.
        sample_weight: Weights of rows `[B]` or of tokens, shaped as `labels`. They enter sums and
            counts alike: 0 leaves a token out, 2 counts it twice. Default None.
        consistency: α of R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural
            Networks"). If it is not 0, the batch must consist of two halves with the same labels,
            predicted with different dropout masks; for each token of a half, α times the
            `symmetric_kl_divergence` of its two predictions is added to `loss`. Default 0.

    >>> totals = token_totals([[5, 2, 0]], tf.zeros([1, 3, 8]))
    >>> round(float(totals.cross_entropy / totals.tokens), 4), float(totals.tokens)
    (2.0794, 2.0)
    """
    given = _Arguments(labels, sample_weight, label_smoothing, padding_id, consistency)
    arguments = given._replace(label_smoothing=label_smoothing or 0.0)
    projection = LogitProjection.of(logits)
    # In eager mode the logits have been computed already.
    if projection is None or tf.executing_eagerly() or logits.dtype != tf.float32:
        return _dense_totals(logits, arguments)
    for known, totals in projection.results:
        if given.match(known) and totals.loss.graph is tf.compat.v1.get_default_graph():
            return totals
    totals = _fused_totals(logits, projection, arguments)
    projection.results.append((arguments, totals))
    return totals


class _Arguments(NamedTuple):
    """Arguments of `token_totals` beside the logits."""

    labels: Any
    sample_weight: Any
    label_smoothing: Any
    padding_id: int
    consistency: float

    def match(self, known: "_Arguments") -> bool:
        """Returns whether totals of the known arguments are those of these arguments, too."""
        return (
            self.labels is known.labels
            and self.sample_weight is known.sample_weight
            and self.label_smoothing in (None, known.label_smoothing)
            and (self.padding_id, self.consistency) == (known.padding_id, known.consistency)
        )


def _dense_totals(logits: Any, given: _Arguments) -> TokenTotals:
    labels, logits = _matching_labels_and_logits(given.labels, logits)
    smoothed, plain = _cross_entropies(labels, logits, given.label_smoothing)
    if given.consistency:
        divergence, _ = symmetric_kl_divergence(tf.nn.log_softmax(logits))
        smoothed += 0.5 * given.consistency * tf.concat([divergence, divergence], axis=0)
    weights = token_weights(labels, given.padding_id, given.sample_weight, smoothed.dtype)
    is_correct = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels)
    by_token = (smoothed, tf.stop_gradient(plain), is_correct)
    sums = [tf.reduce_sum(tf.cast(values, weights.dtype) * weights) for values in by_token]
    return TokenTotals(*sums, tokens=tf.reduce_sum(weights))


def _fused_totals(logits: tf.Tensor, projection: LogitProjection, given: _Arguments) -> TokenTotals:
    labels, _ = _matching_labels_and_logits(given.labels, logits, projection.leading_shape)
    weights = token_weights(labels, given.padding_id, given.sample_weight, tf.float32)
    labels, weights = tf.reshape(labels, [-1]), tf.reshape(weights, [-1])
    sums = fused_cross_entropy_sums(
        projection, labels, weights, given.label_smoothing, given.consistency
    )
    return TokenTotals(*sums, tokens=tf.reduce_sum(weights))


def token_cross_entropy(labels: Any, logits: Any, label_smoothing: float = 0.0) -> tf.Tensor:
    """Returns the cross-entropy in nats of every token, padding included, shaped as `labels`.

    With smoothing ε the target distribution is `(1 - ε) · one_hot(label) + ε / V`: the label gets
    `1 - ε + ε / V`, as in Keras and PyTorch. Szegedy et al. 2016, "Rethinking the Inception
    Architecture for Computer Vision", section 7.

    Args:
        labels: Token ids, whole numbers `[B, T]` or `[N]`. An id outside of [0, V) raises on the
            CPU; on other devices and under XLA, which have no run-time errors, its loss is NaN.
        logits: Unnormalized scores `[B, T, V]` or `[N, V]`. Half precision is computed in float32.
        label_smoothing: ε in [0, 1). Default 0.

    >>> losses = token_cross_entropy([[0, 1]], [[[5.0, 5.0], [0.0, 1000.0]]])
    >>> [round(float(loss), 4) for loss in losses[0]]
    [0.6931, 0.0]
    """
    smoothed, _ = _cross_entropies(*_matching_labels_and_logits(labels, logits), label_smoothing)
    return smoothed


def token_weights(
    labels: Any, padding_id: int = 0, sample_weight: Any = None, dtype: Any = tf.float32
) -> tf.Tensor:
    """Returns the weight of each token, shaped as `labels`; the weight of padding is 0.

    Args:
        labels: Token ids, whole numbers `[B, T]` or `[N]`.
        padding_id: Positions with this label do not count. Default 0.
        sample_weight: Weights of rows `[B]` or of tokens, shaped as `labels`. Default None.
        dtype: Dtype of the weights. Default float32.

    >>> token_weights([[7, 8, 0]]).numpy()
    array([[1., 1., 0.]], dtype=float32)
    """
    labels = tf.convert_to_tensor(labels)
    weights = tf.cast(tf.not_equal(labels, tf.cast(padding_id, labels.dtype)), dtype)
    if sample_weight is None:
        return weights
    given = tf.cast(sample_weight, dtype)
    if given.shape.rank == 1 and labels.shape.rank == 2:
        given = given[:, tf.newaxis]  # [B, 1]
    fits = given.shape.rank == labels.shape.rank and all(
        received in (1, None) or expected is None or received == expected
        for received, expected in zip(given.shape, labels.shape, strict=True)
    )
    if not fits:
        raise UserError(
            "`sample_weight` must have one weight for each row or each token; got shape "
            f"{tuple(given.shape)} for labels of shape {tuple(labels.shape)}."
        )
    return weights * tf.broadcast_to(given, tf.shape(labels))


def _matching_labels_and_logits(
    labels: Any, logits: Any, leading_shape: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns labels as int32 and logits as float32 or float64, after checking their shapes.

    `leading_shape` is that of `logits` without the last axis, if it must not depend on them.
    """
    labels = tf.convert_to_tensor(labels)
    logits = tf.convert_to_tensor(logits)
    checks.require_rank("labels", labels, {1: "N", 2: "B, T"})
    checks.require_rank("logits", logits, {2: "N, V", 3: "B, T, V"})
    if not labels.shape.is_compatible_with(logits.shape[:-1]):
        raise UserError(
            "`logits` must have one row of V scores for each label; got labels of shape "
            f"{tuple(labels.shape)} and logits of shape {tuple(logits.shape)}."
        )
    if not (labels.shape.is_fully_defined() and logits.shape[:-1].is_fully_defined()):
        # Both are flattened later, so that [3, 2] and [2, 3, V] would not be noticed.
        tf.debugging.assert_equal(
            tf.shape(labels),
            tf.shape(logits)[:-1] if leading_shape is None else leading_shape,
            "`logits` must have one row of V scores for each label.",
        )
    if logits.dtype in (tf.float16, tf.bfloat16):
        logits = tf.cast(logits, tf.float32)
    # Under `tf.distribute`, `fit` builds its metrics with floating-point labels.
    return tf.cast(labels, tf.int32), logits


def _cross_entropies(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns `logsumexp(logits) - (1 - ε) · logit_of_label - ε · mean(logits)`, and it for ε = 0.

    Training minimizes the former; perplexity is computed from the latter. The gradient,
    `softmax - (1 - ε) · one_hot - ε / V`, is written out: automatic differentiation allocates three
    times as many [N, V] tensors, and on a CPU takes nearly twice as long.
    """
    shape = tf.shape(labels)
    labels = tf.reshape(labels, [-1])  # [N]

    @tf.custom_gradient
    def cross_entropies(logits: tf.Tensor) -> Any:
        # Relative to the largest logit no exponential overflows; a common offset has no effect.
        shifted = logits - tf.reduce_max(logits, axis=-1, keepdims=True)  # [N, V]
        at_label = logit_of_label(labels, shifted)  # [N]
        linear = (1.0 - label_smoothing) * at_label
        if label_smoothing:
            linear += label_smoothing * tf.reduce_mean(shifted, axis=-1)
        # Once nothing else reads `shifted`, TensorFlow reuses its memory for the exponentials.
        with tf.control_dependencies([linear]):
            exponentials = tf.exp(shifted)  # [N, V]
        normalizer = tf.reduce_sum(exponentials, axis=-1)  # [N]

        def gradient(of_smoothed: tf.Tensor, of_plain: tf.Tensor) -> tf.Tensor:  # [N] each
            upstream = of_smoothed + of_plain
            dense = exponentials * (upstream / normalizer)[:, tf.newaxis]  # [N, V]
            if label_smoothing:
                vocabulary_size = tf.cast(tf.shape(exponentials)[-1], upstream.dtype)
                dense -= (label_smoothing / vocabulary_size * of_smoothed)[:, tf.newaxis]
            indices = tf.stack([tf.range(tf.size(labels)), labels], axis=-1)  # [N, 2]
            target = (1.0 - label_smoothing) * of_smoothed + of_plain
            return tf.tensor_scatter_nd_sub(dense, indices, target)

        logarithm = tf.math.log(normalizer)
        return (logarithm - linear, logarithm - at_label), gradient

    smoothed, plain = cross_entropies(tf.reshape(logits, [-1, tf.shape(logits)[-1]]))  # [N] each
    return tf.reshape(smoothed, shape), tf.reshape(plain, shape)


def _sum_over_replicas(count: tf.Tensor) -> tf.Tensor:
    """Returns the sum of the counts of all replicas inside of `strategy.run`, else `count`."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return count
    return context.all_reduce(tf.distribute.ReduceOp.SUM, count)
