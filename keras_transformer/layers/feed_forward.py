"""The part of a block that looks at each position alone."""

import keras
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_known_dim,
    require_positive_integer,
    require_rate,
)
from keras_transformer.layers.dropout import Dropout

PLAIN_ACTIVATIONS = ("relu", "gelu", "swish")
# Shazeer 2020, "GLU Variants Improve Transformer": what each does to its gate.
GATES = {
    "glu": "sigmoid",
    "bilinear": "linear",
    "reglu": "relu",
    "geglu": "gelu",
    "swiglu": "swish",
}
ACTIVATIONS = (*PLAIN_ACTIVATIONS, *GATES)


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """Two dense layers with an activation between, or the gated form with three.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.3: `f(x W + b) V + c`. Gated,
    Shazeer 2020, "GLU Variants Improve Transformer": `(f(x W + b) * (x U + d)) V + c`.

    Args:
        intermediate_dim: F, size of the inner layer.
        activation: "relu", "gelu" or "swish"; or gated: "glu" (sigmoid), "bilinear", "reglu",
            "geglu" or "swiglu".
        dropout: rate on the inner layer's activations.
        use_bias: whether the dense layers have biases.
        kernel_initializer, bias_initializer: of the dense layers.

    Call arguments:
        inputs: `[..., M]`.

    Returns:
        `[..., M]`.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = FeedForward(intermediate_dim=256, activation="swiglu")(x)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        intermediate_dim,
        activation="relu",
        dropout=0.0,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_dim = require_positive_integer("intermediate_dim", intermediate_dim)
        self.activation = require_choice("activation", activation, ACTIVATIONS)
        self.dropout = require_rate("dropout", dropout)
        self.use_bias = require_boolean("use_bias", use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape):
        hidden_dim = require_known_dim("inputs", inputs_shape)
        activation = GATES.get(self.activation, self.activation)
        self.inner = self._dense("inner", hidden_dim, self.intermediate_dim, activation)
        self.linear = None
        if self.activation in GATES:
            self.linear = self._dense("linear", hidden_dim, self.intermediate_dim)
        self.outer = self._dense("outer", self.intermediate_dim, hidden_dim)
        self.built = True

    def _dense(self, name, input_width, units, activation=None):
        dense = keras.layers.Dense(
            units,
            activation=activation,
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((None, input_width))
        return dense

    def call(self, inputs, training=None):
        # Two dimensions, because the gradient of a three-dimensional product is built row by row.
        flat = ops.reshape(inputs, (-1, inputs.shape[-1]))  # [B·T, M]
        inner = self.inner(flat)  # [B·T, F]
        if self.linear is not None:
            inner = inner * self.linear(flat)
        outputs = self.outer(self.dropout_layer(inner, training=training))  # [B·T, M]
        return ops.reshape(outputs, ops.shape(inputs))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": self.activation,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
