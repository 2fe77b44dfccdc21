"""Consistency regularization with R-Drop: the divergence of two predictions of the same tokens.

Shapes: V vocabulary. The first axis, of size 2·N, is two halves: row n and row N + n are
predictions of the same tokens with different dropout masks.
"""

import tensorflow as tf


def symmetric_kl_divergence(log_probabilities: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the symmetric KL divergence of each token's two predictions, and its gradient.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", section 2.1: the mean of
    the two Kullback-Leibler divergences, `½ (Σ p log(p / q) + Σ q log(q / p))`.

    Args:
        log_probabilities: `[2·N, …, V]`.

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
