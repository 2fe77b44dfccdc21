"""Whether a model says the same with other attention weights."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer.analysis.explain.attributions import changed_weights


@dataclasses.dataclass(frozen=True, eq=False)
class WeightChange:
    """What became of the output when the weights of cross-attention were others.

    Attributes:
        kind: "shuffled" or "uniform".
        block: the number of the only block that was changed, from 1, or None for all.
        total_variation: `[D, T]`, for each draw and target token the distance between the two
            distributions of that token: 0 if they are the same, 1 if they have nothing in common.
        divergence: `[D, T]`, the same as a Jensen-Shannon divergence in bits, from 0 to 1, too.
        is_other: boolean `[D, T]`, whether another token became the likeliest.
    """

    kind: str
    block: int | None
    total_variation: np.ndarray
    divergence: np.ndarray
    is_other: np.ndarray


def shuffle_weights(pair, mechanisms, block=None, draws=100, seed=0):
    """The `WeightChange` of random permutations.

    Jain & Wallace 2019, "Attention is not Explanation", section 4.2.1: who attends, attends as
    sharply as before, but to other tokens. Each block, head and target token has a permutation of
    its own, and all change at once. If the output stays as it was, the weights do not tell what it
    came from.

    Args:
        pair: a `SentencePair`.
        mechanisms: those to change, see `cross_mechanisms`.
        block: which they are, for the record.
        draws: how many permutations; the paper's 100.
        seed: of the permutations.
    """
    generator = tf.random.Generator.from_seed(seed)

    def shuffle(weights):
        order = tf.argsort(generator.uniform(tf.shape(weights)))
        return tf.gather(weights, order, batch_dims=3)

    return _measure("shuffled", block, pair, mechanisms, shuffle, draws)


def even_weights(pair, mechanisms, block=None):
    """The `WeightChange` of equal weights.

    The baseline of Wiegreffe & Pinter 2019, "Attention is not not Explanation": where
    equal weights do as well, a task does not need attention, and it can explain nothing. They train
    a model anew for it. Here the trained one is given equal weights, which tells only whether it
    relies on its own.

    Arguments: see `shuffle_weights`.
    """

    def even(weights):
        return tf.zeros_like(weights) + tf.reduce_mean(weights, axis=-1, keepdims=True)

    return _measure("uniform", block, pair, mechanisms, even, draws=1)


def _measure(kind, block, pair, mechanisms, change, draws):
    own = np.exp(pair.log_probabilities(pair.source[None])[0])  # [T, V]
    found = []
    for part in pair.portions(draws):
        sources = np.tile(pair.source, (part.stop - part.start, 1))
        with changed_weights(mechanisms, change):
            others = np.exp(pair.log_probabilities(sources))  # [b, T, V]
        is_other = others.argmax(axis=-1) != own.argmax(axis=-1)
        found.append((total_variation(own, others), divergence(own, others), is_other))
    return WeightChange(kind, block, *map(np.concatenate, zip(*found, strict=True)))


def total_variation(first, second):
    """Half of the summed differences of two distributions `[..., V]`.

    >>> float(total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])))
    0.25
    """
    return 0.5 * np.abs(first - second).sum(axis=-1)


def divergence(first, second):
    """The Jensen-Shannon divergence of two distributions `[..., V]`, in bits.

    >>> float(divergence(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    middle = 0.5 * (first + second)
    return np.maximum(0.5 * (_relative(first, middle) + _relative(second, middle)), 0.0)


def _relative(values, middle):
    """The Kullback-Leibler divergence from `middle`, in bits."""
    ratio = np.divide(values, middle, out=np.ones_like(middle), where=values > 0)
    return (values * np.log2(ratio)).sum(axis=-1)
