"""What it costs to look at the same place of the source again."""

import keras
from keras import ops

from keras_transformer.checks import require_not_negative


@keras.saving.register_keras_serializable(package="keras_transformer")
class CoverageLoss(keras.layers.Layer):
    """Adds a loss for attention that goes where it has been before; passes its inputs on.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", section 2.3,
    after Tu et al. 2016, "Modeling Coverage for Neural Machine Translation": for each target token
    `Σ_i min(a_i, c_i)`, where c is the sum of the attention of the tokens before it. The mean over
    the tokens of a batch is added with `add_loss`, in training alone.

    The papers also tell the attention itself what c is. A recurrent decoder can do so, which goes
    from token to token anyway: `RecurrentSeq2Seq` with `coverage_attention`. In a Transformer, and
    in convolutions, the tokens of a target are scored all at once in training, when the attention
    of those before them is not known yet. To wait for it would make them as sequential as a
    recurrent decoder is; there, this loss is all.

    Args:
        weight: of this loss. The paper's 1.

    Call arguments:
        inputs: anything, so that the layer has a place in a functional model.
        weights: attention to the source `[B, T, S]`.
        is_token: boolean `[B, T]`, False for padding of the target.

    Returns:
        `inputs`.

    Example:

    >>> layer = CoverageLoss(weight=1.0)
    >>> twice_the_first = ops.convert_to_tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> _ = layer(ops.zeros(1), twice_the_first, ops.ones((1, 2), dtype="bool"), training=True)
    >>> float(layer.losses[0])
    0.5
    """

    def __init__(self, weight=1.0, **kwargs):
        super().__init__(**kwargs)
        self.weight = require_not_negative("weight", weight)

        self.supports_masking = True

    def build(self, inputs_shape, weights_shape, is_token_shape):
        self.built = True

    def call(self, inputs, weights, is_token, training=None):
        if training:
            attention = ops.cast(weights, "float32")
            covered = ops.cumsum(attention, axis=1) - attention  # [B, T, S], without its own
            again = ops.sum(ops.minimum(attention, covered), axis=-1)  # [B, T]
            is_token = ops.cast(is_token, "float32")
            tokens = ops.maximum(ops.sum(is_token), 1.0)
            self.add_loss(self.weight * ops.sum(again * is_token) / tokens)
        return inputs

    def compute_output_spec(self, inputs, weights, is_token, training=None):
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)

    def compute_output_shape(self, inputs_shape, weights_shape, is_token_shape):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "weight": self.weight}
