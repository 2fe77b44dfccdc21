"""Layers of the convolutional sequence-to-sequence model."""

import math
from typing import Any

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_known_dim,
    require_positive_integer,
    require_rate,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    make_mechanism,
    serialize_settings,
)
from keras_transformer.layers.multi_head_attention import as_tuple, with_extras
from keras_transformer.layers.residual import Dropout
from keras_transformer.layers.source_attention import (
    PrecomputedSource,
    attend_to_source,
    decoder_output_spec,
)

#: Scale that keeps the variance of a sum of two (Gehring et al. 2017, section 3.4).
_HALF_VARIANCE = math.sqrt(0.5)


@keras.saving.register_keras_serializable(package="keras_transformer")
class GatedConvolution(ConfiguredLayer):
    """A convolution with gated linear units: `A · sigmoid(B)`.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.2, with the gated
    linear units of Dauphin et al. 2017, "Language Modeling with Gated Convolutional Networks", and
    the initialization of section 3.5, without weight normalization.

    Masking: inputs where the implicit Keras mask is False count as zeros, as do positions before
    the first input and after the last.

    Args:
        kernel_size: Integer. Number of tokens in a window. Default 3.
        is_causal: Boolean. Whether a window ends with its token; if not, the token is in its
            middle. Default False.
        dropout: Float. Dropout rate of the inputs. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, T, M]`.
        cache: Inputs of the previous positions, `[B, kernel_size - 1, M]`, from `initial_cache` or
            from the previous call. Only for a causal convolution. Default None: zeros.
        mask: Boolean `[B, T]`. Keras passes the implicit mask.
        training: Boolean. Whether dropout is applied.

    Returns:
        `[B, T, M]`; with a `cache`, a tuple of the outputs and the updated cache.

    >>> x = keras.Input((None, 64))
    >>> keras.Model(x, GatedConvolution(kernel_size=3)(x)).output_shape
    (None, None, 64)
    """

    def __init__(
        self, kernel_size: int = 3, is_causal: bool = False, dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_size: int = require_positive_integer("kernel_size", kernel_size)
        self.is_causal: bool = require_boolean("is_causal", is_causal)
        self.dropout: float = require_rate("dropout", dropout)
        self.dropout_layer: Dropout = Dropout(self.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self._hidden_dim = hidden_dim = require_known_dim("inputs", inputs_shape)
        size = self.kernel_size * hidden_dim
        # Outputs get the variance of the inputs: the gate and dropout change it.
        deviation = math.sqrt(4 * (1 - self.dropout) / size)
        initializer = keras.initializers.RandomNormal(stddev=deviation)
        self.kernel: keras.Variable = self.new_weight("kernel", (size, 2 * hidden_dim), initializer)
        self.bias: keras.Variable = self.new_weight("bias", (2 * hidden_dim,), "zeros")

    def call(
        self,
        inputs: tf.Tensor,
        cache: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        if cache is not None and not self.is_causal:
            problem = f"GatedConvolution '{self.name}' sees later tokens, so it cannot use a cache."
            raise UserError(problem, fix="Construct it with is_causal=True.")
        states = self.dropout_layer(inputs, training=training)
        if mask is not None:
            states *= tf.cast(mask, states.dtype)[..., None]
        length, around = tf.shape(inputs)[1], self.kernel_size - 1
        if cache is not None:
            states = tf.concat([cache, states], axis=1)
        else:
            after = 0 if self.is_causal else self.kernel_size // 2
            states = tf.pad(states, [[0, 0], [around - after, after], [0, 0]])
        # A matrix product of windows is as fast as a convolution, also for a single step.
        windows = [states[:, i : i + length] for i in range(self.kernel_size)]
        size = self.kernel_size * self._hidden_dim
        rows = tf.reshape(tf.concat(windows, axis=-1), [-1, size])  # [B·T, k·M]
        both = tf.matmul(rows, tf.cast(self.kernel, rows.dtype)) + tf.cast(self.bias, rows.dtype)
        content, gate = tf.split(both, 2, axis=-1)  # each [B·T, M]
        outputs = tf.reshape(content * tf.sigmoid(gate), tf.shape(inputs))
        outputs = tf.ensure_shape(outputs, inputs.shape)
        if cache is None:
            return outputs
        return outputs, tf.ensure_shape(states[:, length:], cache.shape)

    def initial_cache(self, batch_size: int | tf.Tensor) -> tf.Tensor:
        """Returns the cache before the first input: zeros `[B, kernel_size - 1, M]`."""
        return tf.zeros([batch_size, self.kernel_size - 1, self._hidden_dim], self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderKeysAndValues(ConfiguredLayer):
    """Computes keys and values `[B, S, M]` of a convolutional encoder's outputs and embeddings.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning": keys are the outputs, values
    the sum of outputs and embeddings (section 3.3). Section 3.4: a mean of m vectors has a smaller
    variance than the vectors, so values are scaled by sqrt(m), without padding; and in training the
    gradients of the outputs are divided by the number of decoder layers.

    Args:
        num_decoder_layers: Integer. Number of layers that attend to the keys and values. Default 1.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        states: Outputs of the encoder, `[B, S, M]`.
        embedded: Embeddings of the source, `[B, S, M]`.
        states_mask: Boolean `[B, S]`. Keras passes the implicit mask.
        training: Boolean. Whether gradients are scaled.

    >>> states, embedded = keras.Input((None, 64)), keras.Input((None, 64))
    >>> EncoderKeysAndValues(num_decoder_layers=4)(states, embedded)[1].shape
    (None, None, 64)
    """

    def __init__(self, num_decoder_layers: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        count = require_positive_integer("num_decoder_layers", num_decoder_layers)
        self.num_decoder_layers: int = count
        self.supports_masking = True

    def call(
        self,
        states: tf.Tensor,
        embedded: tf.Tensor,
        states_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        keys = states
        if training:  # the same values with a smaller gradient
            share = states / self.num_decoder_layers
            keys = share + tf.stop_gradient(states - share)
        if states_mask is None:
            tokens = tf.cast(tf.shape(states)[1], tf.float32)
        else:
            tokens = tf.reduce_sum(tf.cast(states_mask, tf.float32), axis=1)[:, None, None]
        scale = _HALF_VARIANCE * tf.cast(tf.sqrt(tokens), states.dtype)
        return keys, (keys + embedded) * scale

    def compute_output_shape(
        self, states_shape: Shape, embedded_shape: Shape
    ) -> tuple[Shape, Shape]:
        return states_shape, states_shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalEncoderBlock(ConfiguredLayer):
    """A gated convolution with a residual connection.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.2; the sum is
    scaled by sqrt(0.5), section 3.4. Masking: that of `GatedConvolution`.

    Args:
        kernel_size: Integer. Number of tokens in a window. Default 3.
        dropout: Float. Dropout rate of the inputs of the convolution. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, S, M]`, the shape of the outputs as well.
        mask: Boolean `[B, S]`. Keras passes the implicit mask.
        training: Boolean. Whether dropout is applied.

    >>> x = keras.Input((None, 64))
    >>> keras.Model(x, ConvolutionalEncoderBlock(kernel_size=5)(x)).output_shape
    (None, None, 64)
    """

    def __init__(self, kernel_size: int = 3, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.convolution: GatedConvolution = GatedConvolution(
            kernel_size, dropout=dropout, name="convolution", dtype=self.dtype_policy
        )
        self.kernel_size: int = self.convolution.kernel_size
        self.dropout: float = self.convolution.dropout
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self.convolution.build(inputs_shape)

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None
    ) -> tf.Tensor:
        outputs = self.convolution(inputs, mask=mask, training=training)
        return (inputs + outputs) * _HALF_VARIANCE

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalDecoderBlock(ConfiguredLayer):
    """A causal gated convolution and attention to a source, with residual connections.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.3: the query is
    the projected output of the convolution plus the embedding of the token; the context is added to
    the output. Sums are scaled by sqrt(0.5), section 3.4.

    Masking: padding of the source is hidden by `key_mask` or the implicit mask of `key`. The
    outputs have the mask of `inputs`, whose padding must come last.

    Args:
        kernel_size: Integer. Number of tokens in a window. Default 3.
        attention: A name in `MECHANISMS` or an instance. Default "scaled_dot_product".
        dropout: Float. Dropout rate of the inputs of the convolution. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, T, M]`.
        embedded: Embeddings of the target tokens, `[B, T, M]`.
        key: Keys of the source, `[B, S, M]`.
        value: Values of the source, `[B, S, M]`.
        cache: Result of `initial_cache` or of the previous call; with it, `inputs` are the next
            positions, and there may be N consecutive rows for a row of the source. Default None.
        offset: Number of previous positions. Default 0.
        return_attention_scores: Boolean. Whether to return weights `[B, T, S]`. Default False.
        key_mask: Boolean `[B, S]`, False for padding. Default None.
        training: Boolean. Whether dropout is applied.

    Returns:
        `[B, T, M]`, or a tuple of it, the weights and the updated cache, as far as requested.

    >>> x, source = keras.Input((None, 64)), keras.Input((None, 64))
    >>> ConvolutionalDecoderBlock(kernel_size=3)(x, x, source, source).shape
    (None, None, 64)
    """

    def __init__(
        self,
        kernel_size: int = 3,
        attention: str | AttentionMechanism | dict[str, Any] = "scaled_dot_product",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.convolution: GatedConvolution = GatedConvolution(
            kernel_size, True, dropout, name="convolution", dtype=self.dtype_policy
        )
        self.kernel_size: int = self.convolution.kernel_size
        self.dropout: float = self.convolution.dropout
        self.mechanism: AttentionMechanism = make_mechanism(
            attention, name="mechanism", dtype=self.dtype_policy
        )
        self.mechanism.require_support(cache=True, cross=True)
        self.supports_masking = True

    def build(
        self, inputs_shape: Shape, embedded_shape: Shape, key_shape: Shape, value_shape: Shape
    ) -> None:
        hidden_dim = require_known_dim("inputs", inputs_shape)
        self.convolution.build(inputs_shape)
        projection = keras.layers.Dense(hidden_dim, name="query", dtype=self.dtype_policy)
        projection.build((None, hidden_dim))
        self.query_projection: keras.layers.Dense = projection
        one_head = (None, 1, None, hidden_dim)
        self.mechanism.build(one_head, one_head, one_head)

    def call(
        self,
        inputs: tf.Tensor,
        embedded: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        cache: tf.Tensor | None = None,
        offset: int | tf.Tensor = 0,
        return_attention_scores: bool = False,
        key_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        states, *caches = as_tuple(self.convolution(inputs, cache=cache, training=training))
        rows = tf.reshape(states, [-1, states.shape[-1]])  # [B·T, M]
        query = tf.reshape(self.query_projection(rows), tf.shape(states))
        context, weights = attend_to_source(
            self.mechanism,
            tf.ensure_shape((query + embedded) * _HALF_VARIANCE, states.shape),
            PrecomputedSource.of(self.mechanism, key, value, key_mask),
            offset,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        states = (states + context) * _HALF_VARIANCE
        return with_extras((inputs + states) * _HALF_VARIANCE, weights, *caches)

    def initial_cache(self, batch_size: int | tf.Tensor) -> tf.Tensor:
        """Returns the cache before the first position: zeros `[B, kernel_size - 1, M]`."""
        return self.convolution.initial_cache(batch_size)

    def compute_output_spec(
        self, inputs: Any, embedded: Any, key: Any, *_: Any, **kwargs: Any
    ) -> Any:
        return decoder_output_spec(self, inputs, key, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention": serialize_settings(self.mechanism)}
