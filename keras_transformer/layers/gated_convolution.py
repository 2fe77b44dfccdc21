"""A convolution over neighbouring tokens, half of which is the gate of the other."""

import math

import keras
import tensorflow as tf

from keras_transformer.checks import (
    require_boolean,
    require_known_width,
    require_positive_integer,
    require_rate,
)
from keras_transformer.layers.dropout import Dropout

#: Keeps the size of a sum of two what it was (Gehring et al. 2017, section 3.4).
HALF = math.sqrt(0.5)


@keras.saving.register_keras_serializable(package="keras_transformer")
class GatedConvolution(keras.layers.Layer):
    """A window of tokens, to a vector and its gate: `A · sigmoid(B)`.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.2, with the gated
    linear units of Dauphin et al. 2017, "Language Modeling with Gated Convolutional Networks", and
    the first weights of section 3.5. The paper's weight normalisation, made for plain gradient
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
        self.width = width = require_known_width("inputs", inputs_shape)
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
