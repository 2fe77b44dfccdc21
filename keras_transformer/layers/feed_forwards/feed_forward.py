"""The dense feed-forward network and its activations."""

import difflib
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_known_dim,
    require_positive_integer,
    require_rate,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import ArgumentError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.feed_forwards.registry import register_feed_forward
from keras_transformer.layers.residual import Dropout


@keras.saving.register_keras_serializable(package="keras_transformer")
def gelu_tanh(x: Any) -> Any:
    """Returns the approximation `0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))` of GELU.

    Hendrycks & Gimpel 2016, "Gaussian Error Linear Units (GELUs)", section 2.
    """
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable(package="keras_transformer")
def quick_gelu(x: Any) -> Any:
    """Returns the approximation `x sigmoid(1.702 x)` of GELU.

    Hendrycks & Gimpel 2016, "Gaussian Error Linear Units (GELUs)", section 2.
    """
    return x * ops.sigmoid(1.702 * x)


#: Activations by name, in addition to those of Keras.
ACTIVATIONS: dict[str, Callable[..., Any]] = {"gelu_tanh": gelu_tanh, "quick_gelu": quick_gelu}

#: Gated activations and the function of their gate (Shazeer 2020).
GATES: dict[str, str] = {
    "glu": "sigmoid",
    "bilinear": "linear",
    "reglu": "relu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
    "quick_geglu": "quick_gelu",
    "swiglu": "swish",
}


def require_activation(name: str, value: Any) -> Any:
    """Returns `value` if it is a name in `GATES` or `ACTIVATIONS`, or a Keras activation."""
    if isinstance(value, str) and value not in {*GATES, *ACTIVATIONS}:
        try:
            keras.activations.get(value)
        except ValueError as error:
            own = [*ACTIVATIONS, *GATES]
            known = [*own, *(each for each in dir(keras.activations) if each[0] != "_")]
            close = difflib.get_close_matches(value, known, n=1)
            expected = f"a Keras activation or one of {', '.join(map(repr, own))}"
            fix = f"Did you mean {close[0]!r}?" if close else None
            raise ArgumentError(name, expected, value, fix=fix) from error
    elif not (isinstance(value, str | dict) or callable(value)):
        raise ArgumentError(name, "the name of an activation or a function", value)
    return value


def require_plain_activation(name: str, value: Any) -> Any:
    """Returns `value` if it is an activation of one tensor, not a gated one."""
    if isinstance(value, str) and value in GATES:
        raise ArgumentError(name, "an activation that is not gated", value)
    return require_activation(name, value)


def get_activation(activation: Any) -> Any:
    """Returns the function of an activation that is not gated, by name or as a function."""
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]
    return keras.activations.get(activation)


def serialize_activation(activation: Any) -> Any:
    """Returns an activation as a name or another value that JSON has."""
    return keras.activations.serialize(activation) if callable(activation) else activation


@register_feed_forward("dense")
@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(ConfiguredLayer):
    """Two dense layers with an activation between them, or the gated form with three.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.3: `f(x W + b) V + c`. Gated,
    Shazeer 2020, "GLU Variants Improve Transformer": `(f(x W + b) * (x U + d)) V + c`.

    Args:
        intermediate_dim: Integer. F, size of the inner layer.
        activation: String or function. Any Keras activation; "gelu_tanh" or "quick_gelu", which
            approximate GELU; or gated: "glu" (sigmoid), "bilinear", "reglu", "geglu",
            "geglu_tanh", "quick_geglu" or "swiglu" (swish). Defaults to "relu".
        dropout: Float. Dropout rate of the inner activations. Defaults to 0.
        use_bias: Boolean. Whether the dense layers have biases. Defaults to True.
        kernel_initializer: Initializer of the kernels. Defaults to "glorot_uniform".
        bias_initializer: Initializer of the biases. Defaults to "zeros".
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[..., M]`, the shape of the outputs as well.
        training: Boolean. Whether to apply dropout.

    >>> x = keras.Input((None, 64))
    >>> y = FeedForward(intermediate_dim=256, activation="swiglu")(x)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        intermediate_dim: int,
        activation: str | Callable[..., Any] = "relu",
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.intermediate_dim: int = require_positive_integer("intermediate_dim", intermediate_dim)
        self.activation: Any = require_activation("activation", activation)
        self.dropout: float = require_rate("dropout", dropout)
        self.use_bias: bool = require_boolean("use_bias", use_bias)
        self.kernel_initializer: Any = keras.initializers.get(kernel_initializer)
        self.bias_initializer: Any = keras.initializers.get(bias_initializer)
        self.dropout_layer: Dropout = Dropout(self.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        hidden_dim = require_known_dim("inputs", inputs_shape)
        is_gated = isinstance(self.activation, str) and self.activation in GATES
        activation = get_activation(GATES[self.activation] if is_gated else self.activation)
        make, inner_dim = self._make_dense, self.intermediate_dim
        self.inner: keras.layers.Dense = make("inner", hidden_dim, inner_dim, activation)
        self.linear: keras.layers.Dense | None = None
        if is_gated:
            self.linear = make("linear", hidden_dim, inner_dim)
        self.outer: keras.layers.Dense = make("outer", inner_dim, hidden_dim)

    def _make_dense(
        self, name: str, inputs: int, units: int, activation: Any = None
    ) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            units,
            activation=activation,
            use_bias=self.use_bias,
            # Cloned: an initializer with a seed would give the same numbers to all of them.
            kernel_initializer=self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((None, inputs))
        return dense

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        # Two dimensions, because the gradient of a three-dimensional product is built row by row.
        flat = ops.reshape(inputs, (-1, inputs.shape[-1]))  # [B·T, M]
        inner = self.inner(flat)  # [B·T, F]
        if self.linear is not None:
            inner = inner * self.linear(flat)
        outputs = self.outer(self.dropout_layer(inner, training=training))  # [B·T, M]
        return ops.reshape(outputs, ops.shape(inputs))

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "activation": serialize_activation(self.activation)}
