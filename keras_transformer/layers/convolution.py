"""One block of the convolutional decoder."""

import math

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_known_dim,
    require_positive_integer,
    require_rate,
)
from keras_transformer.layers.attention.mechanism import make_mechanism, serialize_mechanism
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.source_attention import AttendedSource, attend_to_source
from keras_transformer.layers.transformer_block import as_tuple

#: Keeps the size of a sum of two what it was (Gehring et al. 2017, section 3.4).
HALF = math.sqrt(0.5)


@keras.saving.register_keras_serializable(package="keras_transformer")
class GatedConvolution(keras.layers.Layer):
    """A window of tokens, to a vector and its gate: `A · sigmoid(B)`.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.2, with the gated
    linear units of Dauphin et al. 2017, "Language Modeling with Gated Convolutional Networks", and
    the first weights of section 3.5. The paper's weight normalization, made for plain gradient
    descent, is left out.

    Masking: where the implicit Keras mask of the inputs is False, they count as zeros, as do those
    before the first and after the last.

    Args:
        kernel_width: number of tokens in a window.
        is_causal: whether a window ends with its own token; else the token is in the middle.
        dropout: rate on the inputs.

    Call arguments:
        inputs: `[B, T, M]`.
        cache: for a causal one: what `initial_cache` gave, or the call before this one, in place of
            zeros before the first input. The updated cache is returned last.

    Returns:
        `[B, T, M]`, or a tuple of it and the cache.

    Example:

    >>> x = keras.Input((None, 64))
    >>> keras.Model(x, GatedConvolution(kernel_width=3)(x)).output_shape
    (None, None, 64)
    """

    def __init__(self, kernel_width=3, is_causal=False, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.kernel_width = require_positive_integer("kernel_width", kernel_width)
        self.is_causal = require_boolean("is_causal", is_causal)
        self.dropout = require_rate("dropout", dropout)
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape):
        self.width = width = require_known_dim("inputs", inputs_shape)
        size = self.kernel_width * width
        # So that outputs vary as much as inputs: the gate, and dropout, change the variance.
        deviation = math.sqrt(4 * (1 - self.dropout) / size)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(size, 2 * width),
            initializer=keras.initializers.RandomNormal(stddev=deviation),
        )
        self.bias = self.add_weight(name="bias", shape=(2 * width,), initializer="zeros")
        self.built = True

    def call(self, inputs, cache=None, mask=None, training=None):
        if cache is not None and not self.is_causal:
            raise ValueError(
                f"GatedConvolution '{self.name}' sees what comes after a token, so there is no "
                "step by step. Make it with is_causal=True."
            )
        states = self.dropout_layer(inputs, training=training)
        if mask is not None:
            states *= tf.cast(mask, states.dtype)[..., None]
        length, around = tf.shape(inputs)[1], self.kernel_width - 1
        if cache is not None:
            states = tf.concat([cache, states], axis=1)
        else:
            after = 0 if self.is_causal else self.kernel_width // 2
            states = tf.pad(states, [[0, 0], [around - after, after], [0, 0]])
        # A product of windows is as fast as a convolution, and one step is one, too.
        windows = [states[:, i : i + length] for i in range(self.kernel_width)]
        size = self.kernel_width * self.width
        rows = tf.reshape(tf.concat(windows, axis=-1), [-1, size])  # [B·T, k·M]
        both = tf.matmul(rows, tf.cast(self.kernel, rows.dtype)) + tf.cast(self.bias, rows.dtype)
        content, gate = tf.split(both, 2, axis=-1)  # each [B·T, M]
        outputs = tf.reshape(content * tf.sigmoid(gate), tf.shape(inputs))
        outputs = tf.ensure_shape(outputs, inputs.shape)
        if cache is None:
            return outputs
        return outputs, tf.ensure_shape(states[:, length:], cache.shape)

    def initial_cache(self, batch_size):
        """The last inputs before the first: zeros `[B, kernel_width - 1, M]`."""
        return tf.zeros([batch_size, self.kernel_width - 1, self.width], self.compute_dtype)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_width": self.kernel_width,
            "is_causal": self.is_causal,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalMemory(keras.layers.Layer):
    """Keys and values of an encoder's outputs and the embeddings that it began with.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning": keys are the outputs, values
    the sum of outputs and embeddings (section 3.3). Section 3.4: a mean of m vectors is smaller
    than they are, so values are larger by sqrt(m); and as each of the decoder's layers attends to
    the source, in training the outputs' gradients are divided by the number of those layers.

    Masking: padding, told by the implicit Keras mask of `states`, does not count in m. The keys
    carry the mask on.

    Args:
        readers: number of layers that will attend.

    Call arguments:
        states: `[B, S, M]`, the encoder's outputs.
        embedded: `[B, S, M]`.

    Returns:
        keys and values, each `[B, S, M]`.

    Example:

    >>> states, embedded = keras.Input((None, 64)), keras.Input((None, 64))
    >>> keys, values = ConvolutionalMemory(readers=4)(states, embedded)
    >>> values.shape
    (None, None, 64)
    """

    def __init__(self, readers=1, **kwargs):
        super().__init__(**kwargs)
        self.readers = require_positive_integer("readers", readers)
        self.supports_masking = True

    def build(self, states_shape, embedded_shape):
        self.built = True

    def call(self, states, embedded, states_mask=None, training=None):
        keys = states
        if training:  # as before, but for the gradient
            share = states / self.readers
            keys = share + tf.stop_gradient(states - share)
        if states_mask is None:
            tokens = tf.cast(tf.shape(states)[1], tf.float32)
        else:
            tokens = tf.reduce_sum(tf.cast(states_mask, tf.float32), axis=1)[:, None, None]
        return keys, (keys + embedded) * (HALF * tf.cast(tf.sqrt(tokens), states.dtype))

    def compute_output_spec(self, states, embedded, **kwargs):
        return tuple(keras.KerasTensor(states.shape, dtype=self.compute_dtype) for _ in range(2))

    def get_config(self):
        return {**super().get_config(), "readers": self.readers}


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalEncoderBlock(keras.layers.Layer):
    """A gated convolution, and the path around it.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.2; the sum is
    scaled by sqrt(0.5), section 3.4. Masking: see `GatedConvolution`.

    Args:
        kernel_width: number of tokens in a window.
        dropout: rate on what goes into the convolution.

    Call arguments:
        inputs: `[B, S, M]`.

    Example:

    >>> x = keras.Input((None, 64))
    >>> keras.Model(x, ConvolutionalEncoderBlock(kernel_width=5)(x)).output_shape
    (None, None, 64)
    """

    def __init__(self, kernel_width=3, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.convolution = GatedConvolution(
            kernel_width, dropout=dropout, name="convolution", dtype=self.dtype_policy
        )
        self.supports_masking = True

    def build(self, inputs_shape):
        self.convolution.build(inputs_shape)
        self.built = True

    def call(self, inputs, mask=None, training=None):
        return (inputs + self.convolution(inputs, mask=mask, training=training)) * HALF

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_width": self.convolution.kernel_width,
            "dropout": self.convolution.dropout,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalDecoderBlock(keras.layers.Layer):
    """A causal gated convolution, attention to a source, and the path around both.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.3: what asks is
    the convolution's output, projected, with the embedding of the token; the context is added to
    the output. Sums are scaled by sqrt(0.5), section 3.4.

    Masking: padding of the source is hidden by the implicit Keras mask of `key`, or by `key_mask`.
    The outputs carry on the mask of `inputs`, whose padding must come last.

    Args:
        kernel_width: number of tokens in a window.
        attention: mechanism of the attention, a registered name or an instance to take after.
        dropout: rate on what goes into the convolution.

    Call arguments:
        inputs: `[B, T, M]`.
        embedded: `[B, T, M]`, the tokens' embeddings.
        key, value: `[B, S, M]`, of the source.
        cache: what `initial_cache` gave, or the call before this one; with it, `inputs` are the
            next positions alone, and there may be N rows for each of the source, see
            `attend_to_source`. The updated cache is returned last.
        offset: number of positions before.
        return_attention_scores: whether to return the attention's weights `[B, T, S]` as well.

    Example:

    >>> x, memory = keras.Input((None, 64)), keras.Input((None, 64))
    >>> y = ConvolutionalDecoderBlock(kernel_width=3)(x, x, memory, memory)
    >>> keras.Model([x, memory], y).output_shape
    (None, None, 64)
    """

    def __init__(self, kernel_width=3, attention="scaled_dot_product", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.convolution = GatedConvolution(
            kernel_width,
            is_causal=True,
            dropout=dropout,
            name="convolution",
            dtype=self.dtype_policy,
        )
        self.mechanism = make_mechanism(attention, name="mechanism", dtype=self.dtype_policy)
        self.mechanism.check_use(is_cached=True, is_cross=True)
        self.supports_masking = True

    def build(self, inputs_shape, embedded_shape, key_shape, value_shape):
        width = inputs_shape[-1]
        self.convolution.build(inputs_shape)
        self.query_projection = keras.layers.Dense(width, name="query", dtype=self.dtype_policy)
        self.query_projection.build((None, width))
        one_head = (None, 1, None, width)
        self.mechanism.build(one_head, one_head, one_head)
        self.built = True

    def call(
        self,
        inputs,
        embedded,
        key,
        value,
        cache=None,
        offset=0,
        return_attention_scores=False,
        key_mask=None,
        training=None,
    ):
        states, *caches = as_tuple(self.convolution(inputs, cache=cache, training=training))
        rows = tf.reshape(states, [-1, states.shape[-1]])  # [B·T, M]
        query = tf.reshape(self.query_projection(rows), tf.shape(states))
        context, weights = attend_to_source(
            self.mechanism,
            tf.ensure_shape((query + embedded) * HALF, states.shape),
            AttendedSource.prepared(self.mechanism, key, value, key_mask),
            offset,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        states = (states + context) * HALF
        outputs = (
            (inputs + states) * HALF,
            *([weights] if return_attention_scores else []),
            *caches,
        )
        return outputs if len(outputs) > 1 else outputs[0]

    def initial_cache(self, batch_size):
        """See `GatedConvolution.initial_cache`."""
        return self.convolution.initial_cache(batch_size)

    def compute_output_spec(
        self, inputs, embedded, key, value, return_attention_scores=False, **kwargs
    ):
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return outputs
        shape = (*inputs.shape[:2], key.shape[1])
        return outputs, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_width": self.convolution.kernel_width,
            "attention": serialize_mechanism(self.mechanism),
            "dropout": self.convolution.dropout,
        }
