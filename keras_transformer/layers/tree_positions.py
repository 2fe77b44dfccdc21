"""Positions of tokens in the dependency trees of their sentences: depths, distances, encoding."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_choice, require_known_dim
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.relative import UNRELATED
from keras_transformer.layers.positions import SinePositionEncoding

_OUTPUTS: dict[str, list[str]] = {
    "absolute": ["depths"],
    "relative": ["relations"],
    "both": ["depths", "relations"],
}
#: Kinds of tree positions: depths, distances, or both.
KINDS = tuple(_OUTPUTS)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TreePositions(ConfiguredLayer):
    """Computes the depth of each token in its sentence's tree, and the distance of each pair.

    Wang et al. 2019, "Self-Attention with Structural Position Representations", sections on
    absolute and on relative structural positions; see `token_depths` and `token_distances`.

    Args:
        kind: One of `KINDS`: "absolute" for depths, "relative" for distances, "both".
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        words: Int32 `[B, S]`, the number of each token's word, counted from 1; 0 for other tokens.
        heads: Int32 `[B, W]`, the number of each word's head; 0 for a root, `NO_HEAD` for padding.

    Returns:
        A dictionary with "depths" `[B, S]`, "relations" `[B, S, S]`, or both, int32.

    A sentence of two words, of which the first is two tokens, and the end token:

    >>> positions = TreePositions("both")(tf.constant([[1, 1, 2, 0]]), tf.constant([[2, 0]]))
    >>> positions["depths"].numpy().tolist(), positions["relations"].shape
    ([[2, 2, 1, 0]], TensorShape([1, 4, 4]))
    """

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind: str = require_choice("kind", kind, KINDS)

    def call(self, words: tf.Tensor, heads: tf.Tensor) -> dict[str, tf.Tensor]:
        functions = {"depths": token_depths, "relations": token_distances}
        return {name: functions[name](words, heads) for name in _OUTPUTS[self.kind]}

    def compute_output_spec(self, words: Any, heads: Any) -> dict[str, keras.KerasTensor]:
        shapes = {"depths": words.shape, "relations": (*words.shape, words.shape[1])}
        return {name: keras.KerasTensor(shapes[name], "int32") for name in _OUTPUTS[self.kind]}


@keras.saving.register_keras_serializable(package="keras_transformer")
class TreeDepthEncoding(SinePositionEncoding):
    """Adds `tanh(W p(d))` for a token at depth d of a dependency tree; p is the sinusoids.

    Wang et al. 2019, "Self-Attention with Structural Position Representations", the section on
    absolute structural positions: the depth is a second position of a token. The matrix W makes it
    distinguishable from the sequential position, which the model's position encoding or mechanism
    encodes: with plain sinusoids, position 3 at depth 2 would equal position 2 at depth 3.

    The layer needs depths as input, so it is not in the registry of position encodings;
    `tree_positions` of a `Transformer` adds it.

    Args:
        max_wavelength: Float. Base of the wavelengths. Default 10,000, as in the paper.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`.
        positions: Depths, integers `[B, T]`, from `TreePositions`.

    >>> embedded, depths = keras.Input((None, 64)), keras.Input((None,), dtype="int32")
    >>> outputs = TreeDepthEncoding()(embedded, positions=depths)
    >>> keras.Model([embedded, depths], outputs).count_params()
    4096
    """

    def build(self, inputs_shape: Shape, positions_shape: Shape | None = None) -> None:
        super().build(inputs_shape)
        hidden_dim = require_known_dim("inputs", inputs_shape)
        self.kernel: keras.Variable = self.new_weight("kernel", (hidden_dim, hidden_dim))

    def encode(self, positions: tf.Tensor, hidden_dim: int) -> tf.Tensor:
        sinusoids = ops.cast(super().encode(positions, hidden_dim), self.compute_dtype)  # […, M]
        # Two dimensions: the gradient of a three-dimensional product is built row by row.
        projected = ops.matmul(ops.reshape(sinusoids, (-1, hidden_dim)), self.kernel)
        return ops.tanh(ops.reshape(projected, ops.shape(sinusoids)))


def token_depths(words: tf.Tensor, heads: tf.Tensor) -> tf.Tensor:
    """Returns the depth of each token's word, int32 `[B, S]`: 1 for a root, 0 outside of trees."""
    depths = tf.pad(word_depths(heads), [[0, 0], [1, 0]])
    return tf.gather(depths, _words_with_head(words, heads), batch_dims=1)


def token_distances(words: tf.Tensor, heads: tf.Tensor) -> tf.Tensor:
    """Returns the distance of the words of two tokens, int32 `[B, S, S]`; see `word_distances`."""
    outside = [[0, 0], [1, 0], [1, 0]]
    distances = tf.pad(word_distances(heads), outside, constant_values=UNRELATED)
    words = _words_with_head(words, heads)
    from_queries = tf.gather(distances, words, batch_dims=1)  # [B, S, W + 1]
    return tf.gather(from_queries, words, axis=2, batch_dims=1)


def word_depths(heads: tf.Tensor) -> tf.Tensor:
    """Returns the depth of each word, int32 `[B, W]`, as `DependencyTree.depths`.

    A word has depth 0 if its chain of heads leads to no root.
    """
    steps = tf.pad(tf.ones(tf.shape(heads), tf.int32), [[0, 0], [1, 0]])
    steps, top = _accumulate_to_root(heads, steps, tf.add)
    return tf.where(top == 0, steps, 0)[:, 1:]


def word_distances(heads: tf.Tensor) -> tf.Tensor:
    """Returns the distance of each pair of words, int32 `[B, W, W]`, from a query (row) to a key.

    The distance is the number of edges between two words in the tree, as in the paper; here it is
    negative if the key precedes the query, and `UNRELATED` for words outside of the tree.
    """
    size = tf.shape(heads)[1]
    # The ancestors of each word, itself included. Index 0 is above the roots and is not a word.
    itself = tf.linalg.diag(tf.pad(tf.ones([size], tf.bool), [[1, 0]]))
    itself = tf.repeat(itself[None], tf.shape(heads)[0], axis=0)
    ancestors, top = _accumulate_to_root(heads, itself, tf.logical_or)
    ancestors = tf.cast(ancestors[:, 1:, 1:], tf.float32)  # [B, W, W]
    shared = tf.cast(tf.matmul(ancestors, ancestors, transpose_b=True), tf.int32)
    depths = tf.cast(tf.reduce_sum(ancestors, axis=2), tf.int32)
    steps = depths[:, :, None] + depths[:, None] - 2 * shared
    order = tf.sign(tf.range(size)[None] - tf.range(size)[:, None])
    is_in_tree = top[:, 1:] == 0
    return tf.where(is_in_tree[:, :, None] & is_in_tree[:, None], steps * order, UNRELATED)


def _accumulate_to_root(
    heads: tf.Tensor, values: tf.Tensor, join: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the joined values on the path from each word to its root, and the path's end.

    `values` are `[B, W + 1, …]`, for index 0, above the roots, and for each word. The end is 0
    after a root. There are log2(W) rounds; `join` combines the values of two parts of a path.
    """
    heads = tf.cast(heads, tf.int32)
    size = tf.shape(heads)[1]
    # An impossible head is replaced by the word itself, so that its path never reaches a root.
    is_head = (heads >= 0) & (heads <= size)
    up = tf.pad(tf.where(is_head, heads, tf.range(1, size + 1)), [[0, 0], [1, 0]])

    def double(length: Any, up: tf.Tensor, values: tf.Tensor) -> tuple[Any, ...]:
        combined = join(values, tf.gather(values, up, batch_dims=1))
        return 2 * length, tf.gather(up, up, batch_dims=1), combined

    _, up, values = tf.while_loop(lambda length, *_: length < size, double, (1, up, values))
    return values, up


def _words_with_head(words: tf.Tensor, heads: tf.Tensor) -> tf.Tensor:
    """Returns the numbers of words, with 0 for words without a head."""
    words = tf.cast(words, tf.int32)
    has_head = (words > 0) & (words <= tf.shape(heads)[1])
    return tf.where(has_head, words, 0)
