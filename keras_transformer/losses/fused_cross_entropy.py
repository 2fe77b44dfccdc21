"""Output layer and cross-entropy in one, for a chunk of the tokens at a time.

All logits of 4,096 tokens and a vocabulary of 8,000 take 131 MB, and are read several times. Those
of a few hundred tokens stay in the processor's cache until loss and gradients are computed.

Shapes: N tokens, M hidden_dim, V vocabulary; K chunks of C tokens; H halves, 2 with consistency
regularization and else 1.
"""

from typing import Any

import tensorflow as tf

from keras_transformer.layers.kv_cache import is_compiled_by_xla
from keras_transformer.layers.token_embedding import LogitProjection

# Number of logits at a time: 16 MB fit into the cache of a CPU; a GPU needs large products.
_LOGITS_ON_CPU = 2**22
_LOGITS_ON_GPU = 2**26


def fused_cross_entropy_sums(
    projection: LogitProjection,
    labels: tf.Tensor,
    weights: tf.Tensor,
    label_smoothing: float,
    consistency: float = 0.0,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns sums of cross-entropies over tokens whose logits are `states · tableᵀ`.

    Sums and gradients are those of `token_cross_entropy` over dense logits, up to rounding.

    Args:
        projection: The inputs of the output layer. With `is_training` the gradients are computed
            together with the loss; without, only when they are needed, in a second pass.
        labels: Int32 `[N]`.
        weights: Weight of each token, float32 `[N]`.
        label_smoothing: ε in [0, 1).
        consistency: α of R-Drop; if it is not 0, the tokens are two halves with the same labels,
            see `token_totals`. Default 0.

    Returns:
        Three scalars: the weighted sums of the smoothed cross-entropy, of the plain one, and of the
        tokens whose label has the highest logit. Only the first has a gradient.
    """

    @tf.custom_gradient
    def sums_of(states: tf.Tensor, table: tf.Tensor) -> Any:
        arguments = (states, table, labels, weights, label_smoothing, consistency)
        sums, gradients = _add_up(*arguments, projection.is_training)

        def gradient(upstream: tf.Tensor, *_: Any) -> tuple[tf.Tensor, tf.Tensor]:
            of_states, of_table = gradients or _add_up(*arguments, True)[1]
            return (
                tf.cast(upstream * of_states, states.dtype),
                tf.cast(upstream * of_table, table.dtype),
            )

        return sums, gradient

    smoothed, plain, correct = sums_of(projection.states, projection.table)
    return smoothed, tf.stop_gradient(plain), tf.stop_gradient(correct)


def _add_up(
    states: tf.Tensor,
    table: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    label_smoothing: float,
    consistency: float,
    with_gradients: bool,
) -> tuple[tuple[tf.Tensor, ...], Any]:
    """Returns the three sums and, if requested, the gradients of the first, else ()."""
    chunks = _Chunks(states, labels, weights, table.shape[0], halves=2 if consistency else 1)
    # Transposed once: products that transpose the table for each chunk take half as long again.
    transposed = tf.transpose(table)  # [M, V]
    mean_row = tf.reduce_mean(tf.cast(table, tf.float32), axis=0)  # [M]

    def add_chunk(i: tf.Tensor, sums: tf.Tensor, *gradients: Any) -> tuple[Any, ...]:
        rows, row_labels, row_weights = chunks.states[i], chunks.labels[i], chunks.weights[i]
        logits = tf.cast(tf.matmul(rows, transposed), tf.float32)  # [C, V]
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # [C]
        largest = tf.gather(logits, best, batch_dims=1)
        # Relative to the largest logit no exponential overflows.
        shifted = logits - largest[:, tf.newaxis]
        at_label = logit_of_label(row_labels, shifted)
        # Once nothing else reads `shifted`, TensorFlow reuses its memory for the exponentials.
        with tf.control_dependencies([at_label]):
            exponentials = tf.exp(shifted)
        normalizer = tf.reduce_sum(exponentials, axis=-1)  # [C]
        plain = tf.math.log(normalizer) - at_label
        smoothed = plain
        divergence_gradient = None
        if label_smoothing:
            mean = tf.linalg.matvec(tf.cast(rows, tf.float32), mean_row) - largest
            smoothed += label_smoothing * (at_label - mean)
        if consistency:
            log_probabilities = shifted - tf.math.log(normalizer)[:, tf.newaxis]
            divergence, divergence_gradient = symmetric_kl_divergence(log_probabilities)
            smoothed += tf.tile(0.5 * consistency * divergence, [2])  # half of it for each half
        is_correct = tf.cast(tf.equal(best, row_labels), tf.float32)
        by_token = tf.stack([smoothed, plain, is_correct])  # [3, C]
        counted = tf.where(row_weights != 0.0, by_token * row_weights, 0.0)
        sums += tf.reduce_sum(counted, axis=-1)
        if gradients:
            row_gradients, transposed_gradient = gradients
            # The softmax is exponentials / normalizer; the scale is applied to the smaller tensor.
            scale = (row_weights / normalizer)[:, tf.newaxis]  # [C, 1]
            if divergence_gradient is not None:
                exponentials += consistency * normalizer[:, tf.newaxis] * divergence_gradient
            exponentials = tf.cast(exponentials, table.dtype)
            row_gradient = scale * tf.cast(tf.matmul(exponentials, table), tf.float32)  # [C, M]
            scaled = tf.cast(scale * tf.cast(rows, tf.float32), table.dtype)
            row_gradients = row_gradients.write(i, row_gradient)
            transposed_gradient += tf.cast(
                tf.matmul(scaled, exponentials, transpose_a=True), tf.float32
            )  # [M, V]
            gradients = (row_gradients, transposed_gradient)
        return (i + 1, sums, *gradients)

    gradients = ()
    if with_gradients:
        gradients = (
            tf.TensorArray(tf.float32, chunks.count, element_shape=chunks.states.shape[1:]),
            tf.zeros(tf.shape(transposed), tf.float32),
        )
    _, sums, *gradients = tf.while_loop(
        lambda i, *_: i < chunks.used,
        add_chunk,
        (tf.constant(0), tf.zeros([3]), *gradients),
        parallel_iterations=1,
    )
    if not with_gradients:
        return tuple(tf.unstack(sums)), ()

    # From the gradient of the softmax, subtract the smoothed target distribution: 1 - ε at the
    # label, ε over the whole vocabulary.
    softmax_gradient = chunks.put_back(gradients[0].stack())  # [N, M]
    states, weights = tf.cast(states, tf.float32), weights[:, tf.newaxis]
    label_rows = tf.cast(tf.gather(table, labels), tf.float32)
    target = (1.0 - label_smoothing) * label_rows + label_smoothing * mean_row
    weighted = weights * states  # [N, M]
    at_labels = tf.math.unsorted_segment_sum(weighted, labels, table.shape[0])  # [V, M]
    everywhere = tf.reduce_sum(weighted, axis=0) / table.shape[0]  # [M]
    of_table = tf.transpose(gradients[1]) - (1.0 - label_smoothing) * at_labels
    of_states = softmax_gradient - weights * target
    return tuple(tf.unstack(sums)), (of_states, of_table - label_smoothing * everywhere)


class _Chunks:
    """The tokens whose weight is not 0, in K = `count` chunks of C tokens.

    XLA needs shapes that are known at compile time. For it, tokens that do not count are sorted
    behind those that do, and only the first `used` chunks are visited. With H = 2, each chunk
    consists of two halves with the same tokens. The attributes `states` `[K, C, M]`, `labels` and
    `weights` `[K, C]` are the arguments `[N, M]`, `[N]` and `[N]` in chunks.
    """

    def __init__(
        self,
        states: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        vocabulary_size: int,
        halves: int,
    ) -> None:
        at_once = _LOGITS_ON_GPU if tf.config.list_logical_devices("GPU") else _LOGITS_ON_CPU
        largest = max(at_once // vocabulary_size // halves, 1)
        self._halves = halves
        self._counts = _split_halves(weights, halves)[0] != 0.0  # [N / H], equal in both halves
        if is_compiled_by_xla():
            chosen = tf.argsort(tf.cast(~self._counts, tf.int32), stable=True)
        else:
            chosen = tf.where(self._counts)[:, 0]
        tokens = tf.shape(chosen)[0]
        self.count = count = tf.maximum(-(-tokens // largest), 1)  # K
        size = tf.maximum(-(-tokens // count), 1)  # C / H
        missing = count * size - tokens

        def split(values: tf.Tensor) -> tf.Tensor:
            values = tf.gather(_split_halves(values, halves), chosen, axis=1)  # [H, ·, …]
            rest = [[0, 0]] * (values.shape.rank - 2)
            values = tf.pad(values, [[0, 0], [0, missing], *rest])
            shape = tf.shape(values)[2:]
            values = tf.reshape(values, tf.concat([[halves, count, size], shape], axis=0))
            return tf.reshape(
                tf.transpose(values, [1, 0, *range(2, values.shape.rank)]),  # [K, H, C / H, …]
                tf.concat([[count, halves * size], shape], axis=0),
            )

        self.states, self.labels, self.weights = map(split, (states, labels, weights))
        used = tf.math.count_nonzero(self._counts, dtype=tf.int32)
        self.used = tf.maximum(-(-used // size), 1)

    def put_back(self, values: tf.Tensor) -> tf.Tensor:
        """Returns values of the chunks `[K, C, M]` for all tokens `[N, M]`, 0 where none count."""
        count, size = tf.shape(values)[0], values.shape[-1]
        by_chunk = tf.reshape(values, [count, self._halves, -1, size])  # [K, H, C / H, M]
        by_half = tf.reshape(tf.transpose(by_chunk, [1, 0, 2, 3]), [self._halves, -1, size])
        indices = tf.cumsum(tf.cast(self._counts, tf.int32)) - 1  # [N / H]
        found = tf.gather(by_half, tf.maximum(indices, 0), axis=1)
        return tf.reshape(tf.where(self._counts[:, tf.newaxis], found, 0.0), [-1, size])


def _split_halves(values: tf.Tensor, halves: int) -> tf.Tensor:
    """Returns `[N, …]` as `[H, N / H, …]`."""
    return tf.reshape(values, tf.concat([[halves, -1], tf.shape(values)[1:]], axis=0))


def logit_of_label(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns each row's logit `[N]` of its label; NaN for a label outside of the vocabulary."""
    picked = tf.gather(logits, labels, batch_dims=1)  # [N]
    exists = (labels >= 0) & (labels < tf.shape(logits)[-1])
    return tf.where(exists, picked, tf.constant(float("nan"), logits.dtype))


def symmetric_kl_divergence(log_probabilities: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the symmetric KL divergence of each token's two predictions, and its gradient.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", section 2.1: the mean of
    the two Kullback-Leibler divergences, `½ (Σ p log(p / q) + Σ q log(q / p))`.

    Args:
        log_probabilities: `[2·N, …, V]` for a vocabulary of V; rows n and N + n are predictions of
            the same tokens with different dropout masks.

    Returns:
        The divergences `[N, …]`, and their derivatives with respect to the logits of which the
        probabilities are the softmax, `[2·N, …, V]`.

    >>> first, second = [[0.5, 0.5]], [[0.9, 0.1]]
    >>> divergence, _ = symmetric_kl_divergence(tf.math.log(tf.constant(first + second)))
    >>> round(float(divergence[0]), 4)
    0.4394
    """
    first, second = tf.split(log_probabilities, 2)  # [N, …, V] each
    ratio = first - second
    p, q = tf.exp(first), tf.exp(second)
    divergence_of_p = tf.reduce_sum(p * ratio, axis=-1, keepdims=True)  # [N, …, 1]
    divergence_of_q = -tf.reduce_sum(q * ratio, axis=-1, keepdims=True)
    difference = p - q
    gradient = 0.5 * tf.concat(
        [p * (ratio - divergence_of_p) + difference, -q * (ratio + divergence_of_q) - difference],
        axis=0,
    )
    return 0.5 * (divergence_of_p + divergence_of_q)[..., 0], gradient
