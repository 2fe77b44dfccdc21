"""Positions in a tree: how deep a token lies, beside where it stands."""

import keras
from keras import ops

from keras_transformer._utils.checks import require_known_dim
from keras_transformer.layers.positions.sinusoidal_positions import SinePositionEncoding


@keras.saving.register_keras_serializable(package="keras_transformer")
class TreeDepthEncoding(SinePositionEncoding):
    """Adds `tanh(W p(d))` for a token at depth d of its sentence's tree, p being the sinusoids.

    Wang et al. 2019, "Self-Attention with Structural Position Representations", where the depth in
    a dependency tree is an absolute position beside the sequential one, both encoded by sinusoids
    and joined by a learned non-linear function. Here the sequential one is whatever scheme or
    mechanism a model has, and this layer adds the other share. Its matrix keeps the two apart: with
    plain sinusoids, place 3 at depth 2 would be place 2 at depth 3.

    Depths cannot be counted, so that this is no scheme that a config could name as `positions`: see
    `tree_positions` of `TransformerConfig`.

    Args:
        max_wavelength: the base of the wavelengths. The paper's 10,000.

    Call arguments:
        inputs: `[B, T, M]`.
        positions: the depths, integers `[B, T]`, as `TreePositions` finds them: 1 for the root of a
            sentence, 0 for tokens that are in no tree, such as END and padding.

    Example:

    >>> embedded, depths = keras.Input((None, 64)), keras.Input((None,), dtype="int32")
    >>> outputs = TreeDepthEncoding()(embedded, positions=depths)
    >>> keras.Model([embedded, depths], outputs).count_params()
    4096
    """

    def build(self, inputs_shape, positions_shape=None):
        super().build(inputs_shape)
        hidden_dim = require_known_dim("inputs", inputs_shape)
        self.kernel = self.add_weight(name="kernel", shape=(hidden_dim, hidden_dim))

    def encode(self, positions, hidden_dim):
        sinusoids = ops.cast(super().encode(positions, hidden_dim), self.compute_dtype)  # [..., M]
        # Two dimensions, because the gradient of a three-dimensional product is built row by row.
        mixed = ops.matmul(ops.reshape(sinusoids, (-1, hidden_dim)), self.kernel)
        return ops.tanh(ops.reshape(mixed, ops.shape(sinusoids)))
