"""The path around a sublayer, with normalisation before it or after."""

import keras

from keras_transformer.checks import require_choice, require_positive, require_rate
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.layer_normalization import LayerNormalization
from keras_transformer.layers.rms_normalization import RMSNormalization

NORMALIZATIONS = {"layer": LayerNormalization, "rms": RMSNormalization}
ORDERS = ("pre", "post")


def make_normalization(kind, **kwargs):
    """Returns a new layer: "layer" (Ba et al. 2016) or "rms" (Zhang & Sennrich 2019)."""
    return NORMALIZATIONS[require_choice("normalization", kind, NORMALIZATIONS)](**kwargs)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(keras.layers.Layer):
    """Adds what a sublayer made to what it was given, and normalises.

    With `order="post"` `norm(x + dropout(f(x)))`, as in Vaswani et al. 2017, section 3.1; with
    `order="pre"` `x + dropout(f(norm(x)))`, which trains without warm-up (Xiong et al. 2020, "On
    Layer Normalization in the Transformer Architecture").

    Args:
        order: "pre" or "post".
        normalization: "layer" or "rms".
        dropout: rate on the sublayer's output.
        epsilon: added to the variance. Both layers' papers leave it open; 1e-6 as in tensor2tensor.

    Call arguments:
        inputs: `[..., M]`, the x above.
        change: `[..., M]`, what the sublayer made of `enter(inputs)`.

    It is a part for layers to be made of: in a functional model, where `enter` would be a second
    layer, put `keras.layers.LayerNormalization` and `keras.layers.Add` instead.

    Example:

    >>> x = keras.random.normal((2, 5, 64))
    >>> residual, sublayer = Residual(order="pre"), keras.layers.Dense(64)
    >>> residual(x, sublayer(residual.enter(x))).shape
    TensorShape([2, 5, 64])
    """

    def __init__(self, order="pre", normalization="layer", dropout=0.0, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.order = require_choice("order", order, ORDERS)
        self.normalization = normalization
        self.dropout = require_rate("dropout", dropout)
        self.epsilon = require_positive("epsilon", epsilon)
        self.norm = make_normalization(
            normalization, epsilon=self.epsilon, name="norm", dtype=self.dtype_policy
        )
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape, change_shape=None):
        if not self.norm.built:  # `enter` may have come first
            self.norm.build(inputs_shape)
        self.built = True

    def enter(self, inputs):
        """What the sublayer is to be given."""
        return self.norm(inputs) if self.order == "pre" else inputs

    def call(self, inputs, change, training=None):
        outputs = inputs + self.dropout_layer(change, training=training)
        return outputs if self.order == "pre" else self.norm(outputs)

    def compute_output_shape(self, inputs_shape, change_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "order": self.order,
            "normalization": self.normalization,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
        }
