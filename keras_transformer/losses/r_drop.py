"""How far apart two predictions of the same tokens are, and which way leads together.

Shapes: V vocabulary. The first axis, of 2·N rows, is two halves: row n and row N + n are
predictions of the same token or tokens, made with other units dropped.
"""

import tensorflow as tf


def divergence_of_halves(log_probabilities):
    """The symmetric divergence of each token's two distributions, and its gradient.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", section 2.1: the mean of
    the two Kullback-Leibler divergences, `½ (Σ p log(p / q) + Σ q log(q / p))`.

    Args:
        log_probabilities: `[2·N, …, V]`.

    Returns:
        the divergences `[N, …]`; and their derivatives by the logits that the probabilities are
        a softmax of, `[2·N, …, V]`.

    Example:

    >>> same, other = [[0.5, 0.5]], [[0.9, 0.1]]
    >>> divergence, _ = divergence_of_halves(tf.math.log(tf.constant(same + other)))
    >>> round(float(divergence[0]), 4)
    0.4394
    """
    first, second = tf.split(log_probabilities, 2)  # [N, …, V] each
    ratio = first - second
    p, q = tf.exp(first), tf.exp(second)
    of_p = tf.reduce_sum(p * ratio, axis=-1, keepdims=True)  # [N, …, 1]
    of_q = -tf.reduce_sum(q * ratio, axis=-1, keepdims=True)
    difference = p - q
    by_logits = 0.5 * tf.concat(
        [p * (ratio - of_p) + difference, -q * (ratio + of_q) - difference], axis=0
    )
    return 0.5 * (of_p + of_q)[..., 0], by_logits
