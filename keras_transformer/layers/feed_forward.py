"""Feed-forward networks of Transformer blocks, and their registry."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_known_dim,
    require_positive_integer,
    require_rate,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.registry import Kind, register
from keras_transformer._utils.types import Shape
from keras_transformer.layers.dropout import Dropout

#: The registered feed-forward networks by name.
FEED_FORWARDS: dict[str, type[keras.layers.Layer]] = {}

#: Gated activations and the function of their gate (Shazeer 2020, "GLU Variants Improve
#: Transformer").
GATES: dict[str, str] = {
    "glu": "sigmoid",
    "bilinear": "linear",
    "reglu": "relu",
    "geglu": "gelu",
    "swiglu": "swish",
}


def register_feed_forward(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a feed-forward network for blocks and models by `name`.

    The network is a Keras layer from `[B, T, M]` to `[B, T, M]`. Its constructor takes the keyword
    arguments `intermediate_dim`, `activation`, `dropout` and `use_bias` of `FeedForward`, options
    of its own, and those of `keras.layers.Layer`. It is saved with a model if it is registered with
    `keras.saving.register_keras_serializable` as well.
    """
    return register(FEED_FORWARDS, name)


def make_feed_forward(
    feed_forward: str | dict[str, Any] | keras.layers.Layer,
    options: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    dtype: Any = None,
    **settings: Any,
) -> keras.layers.Layer:
    """Returns a new feed-forward network, by registered name or with the config of a layer.

    Args:
        feed_forward: A registered name, or a layer or its serialized form, of which only the config
            is copied, so that one layer can configure every block of a model.
        options: Arguments of its own, for a registered name.
        name: Name of the new layer.
        dtype: Dtype policy of the new layer.
        **settings: Arguments that every registered network takes. A layer keeps its own.
    """
    if isinstance(feed_forward, str):
        kind = FEED_FORWARDS[require_choice("feed_forward", feed_forward, FEED_FORWARDS)]
        try:
            return kind(**settings, **(options or {}), name=name, dtype=dtype)
        except UserError:
            raise
        except (TypeError, ValueError) as error:  # of Keras: an argument that it does not know
            if not options:
                raise
            expected = f"options of the feed-forward network {feed_forward!r}"
            raise ArgumentError(
                "feed_forward_options", expected, options, fix=f"{error}."
            ) from error
    if options:
        raise ArgumentError(
            "feed_forward_options", "empty beside a layer, which has its own settings", options
        )
    if isinstance(feed_forward, dict):
        feed_forward = keras.saving.deserialize_keras_object(feed_forward)
    if not isinstance(feed_forward, keras.layers.Layer):
        raise ArgumentError("feed_forward", "a registered name or a Keras layer", feed_forward)
    layer: keras.layers.Layer = feed_forward
    return type(layer).from_config({**layer.get_config(), "name": name, "dtype": dtype})


def require_activation(name: str, value: Any) -> Any:
    """Returns `value` if it is a gated activation or one that Keras knows by name or can call."""
    if isinstance(value, str) and value not in GATES:
        try:
            keras.activations.get(value)
        except ValueError as error:
            known = [*GATES, *(each for each in dir(keras.activations) if each[0] != "_")]
            close = difflib.get_close_matches(value, known, n=1)
            raise ArgumentError(
                name,
                f"a Keras activation or one of {', '.join(map(repr, GATES))}",
                value,
                fix=f"Did you mean {close[0]!r}?" if close else None,
            ) from error
    elif not (isinstance(value, str | dict) or callable(value)):
        raise ArgumentError(name, "the name of an activation or a function", value)
    return value


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
        activation: String or function. Any Keras activation, or gated: "glu" (sigmoid),
            "bilinear", "reglu", "geglu" or "swiglu" (swish). Defaults to "relu".
        dropout: Float. Dropout rate of the inner activations. Defaults to 0.
        use_bias: Boolean. Whether the dense layers have biases. Defaults to True.
        kernel_initializer: Initializer of the kernels. Defaults to "glorot_uniform".
        bias_initializer: Initializer of the biases. Defaults to "zeros".
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[..., M]`.
        training: Boolean. Whether to apply dropout.

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
        activation = GATES[self.activation] if is_gated else self.activation
        self.inner: keras.layers.Dense = self._make_dense(
            "inner", hidden_dim, self.intermediate_dim, activation
        )
        self.linear: keras.layers.Dense | None = None
        if is_gated:
            self.linear = self._make_dense("linear", hidden_dim, self.intermediate_dim)
        self.outer: keras.layers.Dense = self._make_dense(
            "outer", self.intermediate_dim, hidden_dim
        )
        self.built = True

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
