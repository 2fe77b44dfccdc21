"""Encoding of the depth in a dependency tree."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_known_dim
from keras_transformer._utils.types import Shape
from keras_transformer.layers.positions.sine_position_encoding import SinePositionEncoding


@keras.saving.register_keras_serializable(package="keras_transformer")
class TreeDepthEncoding(SinePositionEncoding):
    """Adds `tanh(W p(d))` for a token at depth d of a dependency tree; p is the sinusoids.

    Wang et al. 2019, "Self-Attention with Structural Position Representations", the section on
    absolute structural positions: the depth is a second position of a token, encoded by sinusoids
    and combined with the sequential one by a learned non-linear function. Here the model's position
    encoding or mechanism encodes the sequential position, and this layer adds the depth. Its matrix
    keeps the two apart: with plain sinusoids, position 3 at depth 2 would equal position 2 at depth
    3.

    The layer needs depths as input, so it is not in the registry of position encodings;
    `tree_positions` of a `Transformer` adds it.

    Args:
        max_wavelength: Float. Base of the wavelengths. Default 10,000, as in the paper.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`.
        positions: Depths, integers `[B, T]`, as `TreePositions` computes them: 1 for the root of a
            sentence, 0 for tokens outside of the tree, such as the end token and padding.

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
