"""Measurements of a sentence pair: attributions, and the effect of other attention weights."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.layers import MultiHeadAttention, TokenEmbedding
from keras_transformer.layers.attention.mechanism import SoftmaxAttention

#: Maximum number of logits that are held at once: 64 MB of them.
LOGITS_AT_ONCE = 2**24


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePair:
    """A sentence and its translation as ids, with a model.

    Attributes:
        model: A model with source and target, in full precision; see `in_full_precision`.
        source: Ids `[S]`, with the end id.
        target: Ids `[T]` that the decoder reads, with the start id.
        labels: Ids `[T]` that the decoder should write, with the end id.
    """

    model: Any
    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray

    def attention_weights(self) -> dict[str, np.ndarray]:
        """Returns the attention weights of all blocks and heads by kind, `[N, H, ·, ·]`."""
        weights = self.model.attention_weights(self.source[None], self.target[None])
        return {kind: np.array(part[0], np.float64) for kind, part in weights.items()}

    def log_probabilities(self, sources: np.ndarray) -> np.ndarray:
        """Returns the log-probabilities `[B, T, V]` of the target for each source `[B, S]`."""
        inputs = {"source": tf.convert_to_tensor(sources), "target": self.targets(len(sources))}
        return tf.nn.log_softmax(self.model(inputs, training=False)).numpy()

    def targets(self, rows: int) -> tf.Tensor:
        """Returns the target repeated `rows` times, `[B, T]`."""
        return tf.convert_to_tensor(np.tile(self.target, (rows, 1)))

    def of_labels(self, values: np.ndarray) -> np.ndarray:
        """Returns those of values `[..., T, V]` that belong to the labels, `[..., T]`."""
        return values[..., np.arange(len(self.labels)), self.labels]

    def batches(self, rows: int) -> list[slice]:
        """Returns slices of rows whose logits can be held at once."""
        vocabulary_size = self.model.output_shape[-1]
        size = max(1, LOGITS_AT_ONCE // (len(self.target) * vocabulary_size))
        return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def in_full_precision(model: keras.Model) -> keras.Model:
    """Returns the model, or a copy in float32 if it computes in half precision.

    Gradients and differences of probabilities are too small for half precision.
    """
    policy: Any = model.dtype_policy
    if keras.backend.standardize_dtype(policy.compute_dtype) in ("float32", "float64"):
        return model
    copy = type(model).from_config({**model.get_config(), "dtype": "float32"})
    copy.set_weights(model.get_weights())
    return copy


def attention_rollout(encoder: np.ndarray, decoder: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """Returns attention followed through all blocks back to the source tokens, `[T, S]`.

    Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3: in every block,
    half of a state comes from the residual connection and half from attention, averaged over the
    heads; the matrices of all blocks are multiplied. The paper treats an encoder. Here the same
    rule continues through the decoder, whose blocks attend twice: to earlier target tokens, then
    to the encoder outputs. The difference to 1 in a row is the share of earlier target tokens.

    Args:
        encoder: Weights of self-attention `[N, H, S, S]`.
        decoder: Weights of causal self-attention `[N, H, T, T]`.
        cross: Weights of cross-attention `[N, H, T, S]`.
    """
    of_encoder = np.eye(encoder.shape[-1])  # [S, S]
    for weights in encoder:
        of_encoder = _with_residual(weights) @ of_encoder
    rollout = np.zeros(cross.shape[2:])  # [T, S]
    for self_weights, cross_weights in zip(decoder, cross, strict=True):
        rollout = _with_residual(self_weights) @ rollout
        rollout = 0.5 * rollout + 0.5 * cross_weights.mean(axis=0) @ of_encoder
    return rollout


def _with_residual(weights: np.ndarray) -> np.ndarray:
    """Returns the mean over the heads of `[H, T, T]`, averaged with the identity: `[T, T]`."""
    return 0.5 * weights.mean(axis=0) + 0.5 * np.eye(weights.shape[-1])


def erasure(pair: SentencePair) -> np.ndarray:
    """Returns by how many nats a target token is less likely without a source token, `[T, S]`.

    Li et al. 2016, "Understanding Neural Networks through Representation Erasure"; Jain & Wallace
    2019 call it leave-one-out. A token is replaced by padding, to which nothing attends, so the
    positions of the other tokens do not change. A value above 0 means that the source token
    supports the target token, as with `gradient_times_input`, which estimates the same quantity.
    """
    length = len(pair.source)
    sources = np.tile(pair.source, (length, 1))
    np.fill_diagonal(sources, pair.model.special_ids.padding)
    whole = pair.of_labels(pair.log_probabilities(pair.source[None]))  # [1, T]
    without = [
        pair.of_labels(pair.log_probabilities(sources[part])) for part in pair.batches(length)
    ]
    return (whole - np.concatenate(without)).T


def gradient_times_input(pair: SentencePair) -> np.ndarray:
    """Returns the product of a source embedding and the gradient of a target token, `[T, S]`.

    Shrikumar et al. 2016, "Not Just a Black Box: Learning Important Features Through Propagating
    Activation Differences". The gradient is that of the target token's log-probability, in nats,
    with respect to the embedding before positions are added. The product is summed over the
    dimensions. A value above 0 means that the source token supports the target token: to first
    order, the log-probability would fall by this value if the embedding were 0. Jain & Wallace 2019
    compare its absolute value with attention (section 4.1).
    """
    length = len(pair.labels)
    # The sentence is repeated for each target token, so one pass gives all gradients.
    found = [_products(pair, range(length)[part]) for part in pair.batches(length)]
    return np.concatenate(found)


def _products(pair: SentencePair, positions: Sequence[int]) -> np.ndarray:
    """Returns the rows of `gradient_times_input` at some positions of the target."""
    model, rows, seen = pair.model, len(positions), []

    def watching(call: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        def embed(*arguments: Any, **options: Any) -> tf.Tensor:
            embedded = call(*arguments, **options)
            tape.watch(embedded)
            seen.append(embedded)
            return embedded

        return embed

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        # Watches the source only, even if source and target share their embeddings.
        with contextlib.ExitStack() as stack:
            for layer in all_layers(model):
                if isinstance(layer, TokenEmbedding):
                    stack.enter_context(replaced_method(layer, "call", watching))
            encoded = model.encode(tf.convert_to_tensor(np.tile(pair.source, (rows, 1))))
        state = model.initial_state(encoded, max_length=len(pair.target))
        logits, _ = model.step(pair.targets(rows), state)  # [B, T, V]
        own = tf.gather(logits, list(positions), axis=1, batch_dims=1)  # [B, V]
        log_probabilities = tf.nn.log_softmax(own)
        labels = tf.convert_to_tensor(pair.labels[list(positions)])
        total = tf.reduce_sum(tf.gather(log_probabilities, labels, axis=1, batch_dims=1))
    (embedded,) = seen
    return tf.reduce_sum(tape.gradient(total, embedded) * embedded, axis=-1).numpy()


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Returns the layers of a model and the layers within them, in the order of the graph."""
    # Keras has no public method for the layers within layers.
    nested = [inner for layer in model.layers for inner in layer._flatten_layers()]
    return list({id(layer): layer for layer in nested}.values())


@contextlib.contextmanager
def replaced_method(
    layer: keras.layers.Layer,
    name: str,
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Temporarily replaces a method of one layer by `make(method)`.

    Nothing is saved, tracked or traced again, and other layers are not affected. If another thread
    uses the model at the same time, it uses the replaced method as well.
    """
    outer = vars(layer).get(name)  # the replacement of an outer context, if any
    # Not by `setattr`, with which Keras would look for variables to track.
    object.__setattr__(layer, name, make(getattr(layer, name)))
    try:
        yield
    finally:
        if outer is None:
            object.__delattr__(layer, name)
        else:
            object.__setattr__(layer, name, outer)


#: Function from attention weights `[B, H, T, S]` to others of the same shape.
Change = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, eq=False)
class WeightChange:
    """Change of the output when cross-attention has other weights, by draw and target token.

    Attributes:
        kind: "shuffled" or "uniform".
        block: Number of the only block whose weights were changed, from 1, or None for all blocks.
        total_variation: Total variation distance `[D, T]` of the distributions, from 0 to 1.
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

    These are the mechanisms of the layers called `cross_attention`; in a model without such layers,
    as a recurrent one, all of them. `ChunkedAttention`, which does not compute all weights, is left
    out.
    """
    layers = all_layers(model)
    cross = [
        layer.mechanism
        for layer in layers
        if isinstance(layer, MultiHeadAttention) and layer.name == "cross_attention"
    ]
    computes_weights = SoftmaxAttention.compute_context
    softmax = (each for each in cross or layers if isinstance(each, SoftmaxAttention))
    return [each for each in softmax if type(each).compute_context is computes_weights]


@contextlib.contextmanager
def changed_weights(mechanisms: Sequence[SoftmaxAttention], change: Change) -> Iterator[None]:
    """Temporarily changes the attention weights of mechanisms.

    The changed weights combine the values, and everything else that the model does with weights
    uses them as well: copying from the source, or coverage.
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
        seed: Seed of the permutations.
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
    """Returns the total variation distance of distributions `[..., V]`."""
    return 0.5 * np.abs(first - second).sum(axis=-1)


def divergence(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the Jensen-Shannon divergence of distributions `[..., V]`, in bits."""
    middle = 0.5 * (first + second)
    relative = []  # Kullback-Leibler divergences from the middle
    for values in (first, second):
        ratio = np.divide(values, middle, out=np.ones_like(middle), where=values > 0)
        relative.append((values * np.log2(ratio)).sum(axis=-1))
    return np.maximum(0.5 * (relative[0] + relative[1]), 0.0)
