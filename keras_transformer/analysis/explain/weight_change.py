"""Change of a model's output when its cross-attention has other weights."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.analysis.explain.attributions import (
    SentencePair,
    all_layers,
    replaced_method,
)
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.attention.mechanism import SoftmaxAttention

#: Function from attention weights `[B, H, T, S]` to others of the same shape.
Change = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, eq=False)
class WeightChange:
    """Change of the output when cross-attention has other weights.

    Attributes:
        kind: "shuffled" or "uniform".
        block: Number of the only block whose weights were changed, from 1, or None for all blocks.
        total_variation: Total variation distance `[D, T]` of the distributions before and after,
            by draw and target token: 0 if they are equal, 1 if they have nothing in common.
        divergence: Their Jensen-Shannon divergence in bits, `[D, T]`, from 0 to 1.
        is_other: Boolean `[D, T]`, whether another token became the most likely one.
    """

    kind: str
    block: int | None
    total_variation: np.ndarray
    divergence: np.ndarray
    is_other: np.ndarray


def cross_mechanisms(model: keras.Model) -> list[SoftmaxAttention]:
    """Returns the mechanisms with which a decoder attends to the source, first block first.

    These are the mechanisms of the layers called `cross_attention`. In a model without such layers,
    as a recurrent one, all attention is to the source. Only mechanisms that compute all weights are
    returned; `ChunkedAttention` does not.
    """
    layers = all_layers(model)
    cross = [
        layer.mechanism
        for layer in layers
        if isinstance(layer, MultiHeadAttention) and layer.name == "cross_attention"
    ]
    return [
        each
        for each in cross or layers
        if isinstance(each, SoftmaxAttention) and type(each).call is SoftmaxAttention.call
    ]


@contextlib.contextmanager
def changed_weights(mechanisms: Sequence[SoftmaxAttention], change: Change) -> Iterator[None]:
    """Temporarily changes the attention weights of mechanisms.

    The changed weights combine the values, and everything else that the model does with weights
    uses them as well: copying from the source, or coverage.

    ```python
    with changed_weights(cross_mechanisms(model), lambda weights: weights[..., ::-1]):
        logits = model(inputs)
    ```
    """

    def changing(compute: Change) -> Change:
        return lambda scores: change(compute(scores))

    with contextlib.ExitStack() as stack:
        for mechanism in mechanisms:
            stack.enter_context(replaced_method(mechanism, "compute_weights", changing))
        yield


def shuffle_weights(
    pair: SentencePair,
    mechanisms: Sequence[SoftmaxAttention],
    block: int | None = None,
    draws: int = 100,
    seed: int = 0,
) -> WeightChange:
    """Returns the change with randomly permuted weights.

    Jain & Wallace 2019, "Attention is not Explanation", section 4.2.1: attention is as sharp as
    before, but to other tokens. Each block, head and target token has its own permutation, and all
    are permuted at once. If the output does not change, the weights do not explain it.

    Args:
        pair: The sentence pair.
        mechanisms: Mechanisms to change, from `cross_mechanisms`.
        block: Number of their block, for the result. Default: all blocks.
        draws: Number of permutations. Default 100, as in the paper.
        seed: Seed of the permutations. Default 0.
    """
    generator = tf.random.Generator.from_seed(seed)

    def shuffle(weights: tf.Tensor) -> tf.Tensor:
        order = tf.argsort(generator.uniform(tf.shape(weights)))
        return tf.gather(weights, order, batch_dims=3)

    return _measure("shuffled", block, pair, mechanisms, shuffle, draws)


def uniform_weights(
    pair: SentencePair, mechanisms: Sequence[SoftmaxAttention], block: int | None = None
) -> WeightChange:
    """Returns the change with equal weights for all source tokens.

    It is a baseline of Wiegreffe & Pinter 2019, "Attention is not not Explanation": if a model is
    as good with equal weights, the task does not need attention, and attention explains nothing.
    They train a model with equal weights. Here the trained model gets equal weights, which only
    shows whether it relies on its own.

    Args:
        pair: The sentence pair.
        mechanisms: Mechanisms to change, from `cross_mechanisms`.
        block: Number of their block, for the result. Default: all blocks.
    """

    def average(weights: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(weights) + tf.reduce_mean(weights, axis=-1, keepdims=True)

    return _measure("uniform", block, pair, mechanisms, average, draws=1)


def _measure(
    kind: str,
    block: int | None,
    pair: SentencePair,
    mechanisms: Sequence[SoftmaxAttention],
    change: Change,
    draws: int,
) -> WeightChange:
    own = np.exp(pair.log_probabilities(pair.source[None])[0])  # [T, V]
    found = []
    for part in pair.batches(draws):
        sources = np.tile(pair.source, (part.stop - part.start, 1))
        with changed_weights(mechanisms, change):
            others = np.exp(pair.log_probabilities(sources))  # [b, T, V]
        is_other = others.argmax(axis=-1) != own.argmax(axis=-1)
        found.append((total_variation(own, others), divergence(own, others), is_other))
    return WeightChange(kind, block, *map(np.concatenate, zip(*found, strict=True)))


def total_variation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the total variation distance of distributions `[..., V]`.

    >>> float(total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])))
    0.25
    """
    return 0.5 * np.abs(first - second).sum(axis=-1)


def divergence(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the Jensen-Shannon divergence of distributions `[..., V]`, in bits.

    >>> float(divergence(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    middle = 0.5 * (first + second)
    relative = []  # Kullback-Leibler divergences from the middle
    for values in (first, second):
        ratio = np.divide(values, middle, out=np.ones_like(middle), where=values > 0)
        relative.append((values * np.log2(ratio)).sum(axis=-1))
    return np.maximum(0.5 * (relative[0] + relative[1]), 0.0)
