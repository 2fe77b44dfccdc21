"""Output layer and loss in one, a part of the tokens at a time.

The logits of 4,096 tokens and 8,000 words are 131 MB, and softmax, loss and gradient go over them
many times. Here a few hundred tokens are taken at a time: their logits stay in the processor's
cache, and what training needs of them, the loss and its gradients, is made before the next few
hundred come. Tokens that do not count are left out.

Shapes: N tokens, M width, V vocabulary; C tokens in a part, K parts.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.layers.compilation import is_compiled_by_xla
from keras_transformer.losses.r_drop import divergence_of_halves

# How many logits there are at a time. On a CPU 16 MB stay in its cache; a GPU wants large products.
_LOGITS_ON_CPU = 2**22
_LOGITS_ON_GPU = 2**26


class _Totals(NamedTuple):
    """Sums over tokens and, if asked for, the gradients of `smoothed`."""

    smoothed: tf.Tensor
    plain: tf.Tensor
    right: tf.Tensor
    of_states: tf.Tensor | None = None
    of_table: tf.Tensor | None = None


def projected_totals(projection, labels, weights, label_smoothing, consistency=0.0):
    """Adds up cross-entropies over tokens whose logits are `states · tableᵀ`.

    The sums are those of `token_cross_entropies` over dense logits, but
    for rounding, and so are the gradients.

    Args:
        projection: a `Projection`. With `is_training` the gradients are made together with the
            loss; without, only when they are asked for, by a second pass.
        labels: int32 `[N]`.
        weights: how much each token counts, float32 `[N]`.
        label_smoothing: ε in [0, 1).
        consistency: how much the divergence between the two halves of the tokens counts, which then
            are the same tokens twice; see `token_totals`.

    Returns:
        Three scalars: the weighted sums of the smoothed cross-entropy, of the plain one, and of the
        tokens whose label has the highest logit. Only the first has a gradient.
    """

    @tf.custom_gradient
    def totals(states, table):
        def add_up(with_gradients):
            return _add_up(
                states, table, labels, weights, label_smoothing, consistency, with_gradients
            )

        sums = add_up(with_gradients=projection.is_training)

        def gradient(upstream, *_):
            found = sums if projection.is_training else add_up(with_gradients=True)
            return (
                tf.cast(upstream * found.of_states, states.dtype),
                tf.cast(upstream * found.of_table, table.dtype),
            )

        return (sums.smoothed, sums.plain, sums.right), gradient

    smoothed, plain, right = totals(projection.states, projection.table)
    return smoothed, tf.stop_gradient(plain), tf.stop_gradient(right)


def _add_up(states, table, labels, weights, label_smoothing, consistency, with_gradients):
    parts = _Parts(states, labels, weights, table.shape[0], halves=2 if consistency else 1)
    # Products with a table that must be transposed part by part take half as long again.
    transposed = tf.transpose(table)  # [M, V]
    mean_row = tf.reduce_mean(tf.cast(table, tf.float32), axis=0)  # [M]

    def goes_on(number, *_):
        return number < parts.used

    def advance(number, sums, *gradients):
        rows, rows_labels, rows_weights = parts.take(number)
        logits = tf.cast(tf.matmul(rows, transposed), tf.float32)  # [C, V]
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # [C]
        largest = tf.gather(logits, best, batch_dims=1)
        # Relative to the largest logit no exponential overflows.
        shifted = logits - largest[:, tf.newaxis]
        of_label = logit_of_label(rows_labels, shifted)
        # Once nothing else reads `shifted`, TensorFlow puts the exponentials in its place.
        with tf.control_dependencies([of_label]):
            exponentials = tf.exp(shifted)
        normalizer = tf.reduce_sum(exponentials, axis=-1)  # [C]
        plain = tf.math.log(normalizer) - of_label
        smoothed = plain
        if label_smoothing:
            mean = tf.linalg.matvec(tf.cast(rows, tf.float32), mean_row) - largest
            smoothed += label_smoothing * (of_label - mean)
        if consistency:
            log_probabilities = shifted - tf.math.log(normalizer)[:, tf.newaxis]
            divergence, by_logits = divergence_of_halves(log_probabilities)
            smoothed += tf.tile(0.5 * consistency * divergence, [2])  # half of it for each half
        is_right = tf.cast(tf.equal(best, rows_labels), tf.float32)
        by_token = tf.stack([smoothed, plain, is_right])  # [3, C]
        counted = tf.where(rows_weights != 0.0, by_token * rows_weights, 0.0)
        sums += tf.reduce_sum(counted, axis=-1)
        if gradients:
            of_rows, of_transposed = gradients
            # The softmax is exponentials over normalizer; its rows are scaled where they are short.
            scale = (rows_weights / normalizer)[:, tf.newaxis]  # [C, 1]
            if consistency:
                exponentials += consistency * normalizer[:, tf.newaxis] * by_logits
            exponentials = tf.cast(exponentials, table.dtype)
            part = scale * tf.cast(tf.matmul(exponentials, table), tf.float32)  # [C, M]
            scaled = tf.cast(scale * tf.cast(rows, tf.float32), table.dtype)
            of_rows = of_rows.write(number, part)
            of_transposed += tf.cast(
                tf.matmul(scaled, exponentials, transpose_a=True), tf.float32
            )  # [M, V]
            gradients = (of_rows, of_transposed)
        return (number + 1, sums, *gradients)

    gradients = ()
    if with_gradients:
        gradients = (
            tf.TensorArray(tf.float32, parts.count, element_shape=parts.states.shape[1:]),
            tf.zeros(tf.shape(transposed), tf.float32),
        )
    _, sums, *gradients = tf.while_loop(
        goes_on, advance, (tf.constant(0), tf.zeros([3]), *gradients), parallel_iterations=1
    )
    sums = tf.unstack(sums)
    if not with_gradients:
        return _Totals(*sums)

    # What the softmax is compared with: most of the probability at the label, the rest everywhere.
    of_softmax = parts.put_back(gradients[0].stack())  # [N, M]
    states, weights = tf.cast(states, tf.float32), weights[:, tf.newaxis]
    rows_of_labels = tf.cast(tf.gather(table, labels), tf.float32)
    wanted = (1.0 - label_smoothing) * rows_of_labels + label_smoothing * mean_row
    weighted = weights * states  # [N, M]
    at_labels = tf.math.unsorted_segment_sum(weighted, labels, table.shape[0])  # [V, M]
    everywhere = tf.reduce_sum(weighted, axis=0) / table.shape[0]  # [M]
    return _Totals(
        *sums,
        of_states=of_softmax - weights * wanted,
        of_table=tf.transpose(gradients[1])
        - (1.0 - label_smoothing) * at_labels
        - label_smoothing * everywhere,
    )


class _Parts:
    """The tokens that count, in K parts of C.

    XLA needs shapes that it knows when it compiles. For it the other tokens come after those that
    count, and the last parts are not visited.

    Where the tokens are two halves, H = 2, so are those of each part: the same tokens twice.
    """

    def __init__(self, states, labels, weights, vocabulary, halves):
        at_once = _LOGITS_ON_GPU if tf.config.list_logical_devices("GPU") else _LOGITS_ON_CPU
        most = max(at_once // vocabulary // halves, 1)
        self._halves = halves
        self._counts = _by_half(weights, halves)[0] != 0.0  # [N / H]: of both halves the same
        if is_compiled_by_xla():
            chosen = tf.argsort(tf.cast(~self._counts, tf.int32), stable=True)
        else:
            chosen = tf.where(self._counts)[:, 0]
        tokens = tf.shape(chosen)[0]
        self.count = count = tf.maximum(-(-tokens // most), 1)  # K
        size = tf.maximum(-(-tokens // count), 1)  # C / H
        missing = count * size - tokens

        def split(values):
            values = tf.gather(_by_half(values, halves), chosen, axis=1)  # [H, ·, …]
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

    def take(self, number):
        """States `[C, M]`, labels `[C]` and weights `[C]` of a part."""
        return self.states[number], self.labels[number], self.weights[number]

    def put_back(self, values):
        """Values `[K, C, M]` of the parts as those of the tokens `[N, M]`, 0 for the others."""
        count, width = tf.shape(values)[0], values.shape[-1]
        by_part = tf.reshape(values, [count, self._halves, -1, width])  # [K, H, C / H, M]
        by_half = tf.reshape(tf.transpose(by_part, [1, 0, 2, 3]), [self._halves, -1, width])
        places = tf.cumsum(tf.cast(self._counts, tf.int32)) - 1  # [N / H]
        found = tf.gather(by_half, tf.maximum(places, 0), axis=1)
        return tf.reshape(tf.where(self._counts[:, tf.newaxis], found, 0.0), [-1, width])


def _by_half(values, halves):
    """Values `[N, …]` as `[H, N / H, …]`."""
    return tf.reshape(values, tf.concat([[halves, -1], tf.shape(values)[1:]], axis=0))


def logit_of_label(labels, logits):
    """Picks each row's logit of its label; NaN, never another token's, where there is none."""
    picked = tf.gather(logits, labels, batch_dims=1)  # [N]
    exists = (labels >= 0) & (labels < tf.shape(logits)[-1])
    return tf.where(exists, picked, tf.constant(float("nan"), logits.dtype))
