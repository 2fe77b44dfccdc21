"""The training loss: label-smoothed cross-entropy over the tokens that are not padding.

Shapes: B batch, T length, V vocabulary, N = B·T.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer.layers.token_embedding import projection_of
from keras_transformer.losses.fused_cross_entropy import logit_of_label, projected_totals
from keras_transformer.losses.r_drop import divergence_of_halves


def token_cross_entropy(labels, logits, label_smoothing=0.0):
    """Returns the cross-entropy of every token, padding included.

    With smoothing ε the wanted distribution is `(1 - ε) · one_hot(label) + ε / V`: the label itself
    gets `1 - ε + ε / V`. Keras and PyTorch define it the same way. Szegedy et al. 2016, "Rethinking
    the Inception Architecture for Computer Vision", §7.

    Args:
        labels: token ids, whole numbers [B, T] or [N]. An id outside [0, V) raises on the CPU; on
            other devices and under XLA, where kernels cannot raise, its loss is NaN.
        logits: unnormalized scores [B, T, V] or [N, V]. Half precision is computed in float32.
        label_smoothing: ε in [0, 1).

    Returns:
        The losses in nats, shaped as `labels`, in float32 (float64 for float64 logits).

    Example:

    >>> losses = token_cross_entropy([[0, 1]], [[[5.0, 5.0], [0.0, 1000.0]]])
    >>> [round(float(loss), 4) for loss in losses[0]]
    [0.6931, 0.0]
    """
    smoothed, _ = token_cross_entropies(labels, logits, label_smoothing)
    return smoothed


def token_cross_entropies(labels, logits, label_smoothing):
    """Returns the cross-entropy of every token twice, with label smoothing and without.

    The one is what training lowers, the other what perplexity is made of. Both in one pass over the
    logits take hardly longer than one of them; see `token_cross_entropy` for the arguments.

    Example: smoothing holds a certain and right answer to be too sure of itself.

    >>> smoothed, plain = token_cross_entropies([[1]], [[[0.0, 100.0]]], label_smoothing=0.1)
    >>> round(float(smoothed[0, 0]), 4), round(float(plain[0, 0]), 4)
    (5.0, 0.0)
    """
    labels, logits = matching_labels_and_logits(labels, logits)
    flat_labels = tf.reshape(labels, [-1])  # [N]
    flat_logits = tf.reshape(logits, [-1, tf.shape(logits)[-1]])  # [N, V]
    losses = _cross_entropies(flat_labels, flat_logits, label_smoothing)
    return tuple(tf.reshape(part, tf.shape(labels)) for part in losses)


def matching_labels_and_logits(labels, logits, rows=None):
    """Returns both as tensors to compute with, int32 and at least float32, if they match.

    Args:
        labels: token ids, whole numbers [B, T] or [N].
        logits: scores [B, T, V] or [N, V].
        rows: the shape of `logits` without the last axis, a tensor, where it is known without
            the logits being there.

    Raises:
        ValueError: if the shapes do not belong together.

    Example:

    >>> labels, logits = matching_labels_and_logits([[1, 0]], tf.zeros([1, 2, 8], "float16"))
    >>> labels.dtype.name, logits.dtype.name
    ('int32', 'float32')
    """
    labels = tf.convert_to_tensor(labels)
    logits = tf.convert_to_tensor(logits)
    checks.require_rank("labels", labels, {1: "N", 2: "B, T"})
    checks.require_rank("logits", logits, {2: "N, V", 3: "B, T, V"})
    if not labels.shape.is_compatible_with(logits.shape[:-1]):
        raise ValueError(
            "`logits` must have one row of V scores for each label; got labels of shape "
            f"{tuple(labels.shape)} and logits of shape {tuple(logits.shape)}."
        )
    if not (labels.shape.is_fully_defined() and logits.shape[:-1].is_fully_defined()):
        # Both are flattened later on: [3, 2] and [2, 3, V] would pass for each other.
        tf.debugging.assert_equal(
            tf.shape(labels),
            tf.shape(logits)[:-1] if rows is None else rows,
            "`logits` must have one row of V scores for each label.",
        )
    if logits.dtype in (tf.float16, tf.bfloat16):
        logits = tf.cast(logits, tf.float32)
    # Ids may come as floats: under `tf.distribute`, `fit` builds its metrics with such labels.
    return tf.cast(labels, tf.int32), logits


class TokenTotals(NamedTuple):
    """Sums over the tokens of a batch that count, all scalars.

    Attributes:
        loss: of the smoothed cross-entropy, whose gradient trains a model.
        cross_entropy: of the cross-entropy without smoothing.
        right: how many tokens have the highest logit.
        tokens: how many there are; with sample weights, the sum of the weights.
    """

    loss: tf.Tensor
    cross_entropy: tf.Tensor
    right: tf.Tensor
    tokens: tf.Tensor


def token_totals(
    labels, logits, label_smoothing=None, padding_id=0, sample_weight=None, consistency=0.0
):
    """Adds up all that is watched, over the tokens of a batch that count.

    This is what training, evaluation, `fit`'s loss and its metrics have in common. In a graph, and
    with the logits of a model as they came, the output layer is computed together with the loss, a
    few hundred tokens at a time, and the logits are never all there; see `projected_loss`.

    The mean over several batches, parts of a batch or replicas is the sum of their totals divided
    by the sum of their counts.

    Args:
        labels: token ids, whole numbers [B, T] or [N].
        logits: [B, T, V] or [N, V].
        label_smoothing: ε in [0, 1) of `loss`; None if `loss` is not wanted.
        padding_id: the label of positions that do not count.
        sample_weight: optional weights of rows [B] or of tokens, shaped as `labels`. They enter
            totals and count alike: 0 leaves a token out, 2 counts it twice.
        consistency: α of Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks". Not
            0, the batch must be one half twice, predicted with other units dropped; to `loss` is
            added, for each token of a half, α times how far apart its two distributions are, see
            `divergence_of_halves`.

    Returns:
        `TokenTotals`; `loss` alone has a gradient.

    Example:

    >>> totals = token_totals([[5, 2, 0]], tf.zeros([1, 3, 8]))
    >>> round(float(totals.cross_entropy / totals.tokens), 4), float(totals.tokens)
    (2.0794, 2.0)
    """
    projection = projection_of(logits)
    if projection is not None and (tf.executing_eagerly() or logits.dtype != tf.float32):
        projection = None  # in eager mode the logits are there already
    if projection is None:
        return _dense_totals(
            labels, logits, label_smoothing or 0.0, padding_id, sample_weight, consistency
        )
    key = (id(labels), padding_id, id(sample_weight), consistency)
    for known_smoothing, totals, *_ in projection.found.get(key, ()):
        is_here = totals.loss.graph is tf.compat.v1.get_default_graph()
        if is_here and label_smoothing in (None, known_smoothing):
            return totals
    smoothing = label_smoothing or 0.0
    totals = _projected_totals(
        labels, logits, projection, smoothing, padding_id, sample_weight, consistency
    )
    # Labels and weights are kept with it, or their ids could come to be those of other tensors.
    projection.found.setdefault(key, []).append((smoothing, totals, labels, sample_weight))
    return totals


def _dense_totals(labels, logits, label_smoothing, padding_id, sample_weight, consistency):
    smoothed, plain = token_cross_entropies(labels, logits, label_smoothing)
    if consistency:
        log_probabilities = tf.nn.log_softmax(matching_labels_and_logits(labels, logits)[1])
        divergence, _ = divergence_of_halves(log_probabilities)
        smoothed += 0.5 * consistency * tf.concat([divergence, divergence], axis=0)
    weights = token_weights(labels, padding_id, sample_weight, smoothed.dtype)
    of_tokens = (smoothed, tf.stop_gradient(plain), is_likeliest(labels, logits))
    sums = [tf.reduce_sum(tf.cast(values, weights.dtype) * weights) for values in of_tokens]
    return TokenTotals(*sums, tf.reduce_sum(weights))


def _projected_totals(
    labels, logits, projection, label_smoothing, padding_id, sample_weight, consistency
):
    labels, _ = matching_labels_and_logits(labels, logits, projection.rows)
    weights = tf.reshape(token_weights(labels, padding_id, sample_weight, tf.float32), [-1])
    sums = projected_totals(
        projection, tf.reshape(labels, [-1]), weights, label_smoothing, consistency
    )
    return TokenTotals(*sums, tf.reduce_sum(weights))


def is_likeliest(labels, logits):
    """Returns 1.0 for each label that has the highest logit, else 0.0, shaped as `labels`."""
    labels, logits = matching_labels_and_logits(labels, logits)
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.cast(tf.equal(best, labels), tf.float32)


def token_weights(labels, padding_id=0, sample_weight=None, dtype=tf.float32):
    """Returns how much each token counts, shaped as `labels`: padding not at all.

    This is the one place that says which tokens count; see `token_totals` for the arguments.

    >>> token_weights([[7, 8, 0]]).numpy()
    array([[1., 1., 0.]], dtype=float32)
    """
    labels = tf.convert_to_tensor(labels)
    weights = tf.cast(tf.not_equal(labels, tf.cast(padding_id, labels.dtype)), dtype)
    if sample_weight is not None:
        weights *= _weight_per_token(tf.cast(sample_weight, dtype), labels)
    return weights


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenCrossEntropy(keras.losses.Loss):
    """Label-smoothed cross-entropy, averaged over the tokens that are not padding.

    The value is the sum of the tokens' losses divided by their number, so it does not depend on how
    far a batch is padded. The labels alone decide what counts: an implicit Keras mask on the
    predictions is not looked at. A batch without any token gives 0.

    Under `tf.distribute` every replica divides by the number of tokens on all replicas together.
    Its value is thus its share of the loss: the shares, and their gradients, add up to those of the
    whole batch on one device, however unevenly the tokens are spread. `fit` wants just that, since
    optimizers add up the gradients of the replicas; a loop of one's own must not divide again.

    Label smoothing is defined at `token_cross_entropy`. Vaswani et al. 2017, "Attention Is All You
    Need", §5.4, train with 0.1.

    Args:
        label_smoothing: the share of the probability that is spread evenly over the vocabulary.
        padding_id: the label of positions that do not count; an id of the vocabulary.
        name: name of the loss.

    Call arguments:
        y_true: token ids, whole numbers [B, T] or [N].
        y_pred: logits [B, T, V] or [N, V].
        sample_weight: optional weights of rows [B] or of tokens; see `token_totals`.

    Example: two tokens that could be any of eight, and one padding, cost log(8).

    >>> loss = TokenCrossEntropy(padding_id=0)
    >>> round(float(loss([[5, 2, 0]], tf.zeros([1, 3, 8]))), 4)
    2.0794
    """

    def __init__(self, label_smoothing=0.0, padding_id=0, name="token_cross_entropy"):
        super().__init__(name=name, reduction="mean_with_sample_weight")
        self.label_smoothing = checks.require_rate("label_smoothing", label_smoothing)
        self.padding_id = checks.require_integer("padding_id", padding_id, minimum=0)

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Keras' own would cast the ids to float, apply the mask of `y_pred`, and have each replica
        # average over its own tokens.
        with tf.name_scope(self.name):
            totals = token_totals(
                y_true, y_pred, self.label_smoothing, self.padding_id, sample_weight
            )
            return tf.math.divide_no_nan(totals.loss, _sum_over_replicas(totals.tokens))

    def call(self, y_true, y_pred):
        return token_cross_entropy(y_true, y_pred, self.label_smoothing)

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "padding_id": self.padding_id,
            "name": self.name,
        }


def _cross_entropies(labels, logits, label_smoothing):
    """Returns `logsumexp(logits) - (1 - ε) · logit_of_label - ε · mean(logits)` of each row [N, V],
    and the same for ε = 0.

    The gradient of the former, `softmax - (1 - ε) · one_hot - ε / V`, is written out: what
    automatic differentiation makes of this formula allocates three times as many [N, V] tensors,
    and on a CPU takes nearly twice as long.
    """

    @tf.custom_gradient
    def cross_entropies(logits):
        # Relative to the largest logit no exponential overflows, and a common offset costs nothing.
        shifted = logits - tf.reduce_max(logits, axis=-1, keepdims=True)  # [N, V]
        of_label = logit_of_label(labels, shifted)  # [N]
        linear = (1.0 - label_smoothing) * of_label
        if label_smoothing:
            linear += label_smoothing * tf.reduce_mean(shifted, axis=-1)
        # Once nothing else reads `shifted`, TensorFlow puts the exponentials in its place.
        with tf.control_dependencies([linear]):
            exponentials = tf.exp(shifted)  # [N, V]
        normalizer = tf.reduce_sum(exponentials, axis=-1)  # [N]

        def gradient(of_smoothed, of_plain):  # [N] each
            upstream = of_smoothed + of_plain
            dense = exponentials * (upstream / normalizer)[:, tf.newaxis]  # [N, V]
            if label_smoothing:
                vocabulary = tf.cast(tf.shape(exponentials)[-1], upstream.dtype)
                dense -= (label_smoothing / vocabulary * of_smoothed)[:, tf.newaxis]
            position = tf.stack([tf.range(tf.size(labels)), labels], axis=-1)  # [N, 2]
            at_label = (1.0 - label_smoothing) * of_smoothed + of_plain
            return tf.tensor_scatter_nd_sub(dense, position, at_label)

        logarithm = tf.math.log(normalizer)
        return (logarithm - linear, logarithm - of_label), gradient

    return cross_entropies(logits)


def _weight_per_token(weights, labels):
    """Returns weights of rows or of tokens as weights of tokens."""
    if weights.shape.rank == 1 and labels.shape.rank == 2:
        weights = weights[:, tf.newaxis]  # [B, 1]
    fits = weights.shape.rank == labels.shape.rank and all(
        have in (1, None) or want is None or have == want
        for have, want in zip(weights.shape, labels.shape, strict=True)
    )
    if not fits:
        raise ValueError(
            "`sample_weight` must have one weight for each row or each token; got shape "
            f"{tuple(weights.shape)} for labels of shape {tuple(labels.shape)}."
        )
    return tf.broadcast_to(weights, tf.shape(labels))


def _sum_over_replicas(count):
    """Adds up the counts of all replicas inside `strategy.run`; elsewhere there is only one."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return count
    return context.all_reduce(tf.distribute.ReduceOp.SUM, count)
