"""One block of the convolutional decoder."""

import keras
import tensorflow as tf

from keras_transformer.layers.attention.mechanism import make_mechanism, serialize_mechanism
from keras_transformer.layers.gated_convolution import HALF, GatedConvolution
from keras_transformer.layers.source_attention import AttendedSource, attend_to_source
from keras_transformer.layers.transformer_block import as_tuple


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
        return_weights: whether to return the attention's weights `[B, T, S]` as well.

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
        return_weights=False,
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
            return_weights=return_weights,
            training=training,
        )
        states = (states + context) * HALF
        outputs = ((inputs + states) * HALF, *([weights] if return_weights else []), *caches)
        return outputs if len(outputs) > 1 else outputs[0]

    def initial_cache(self, batch_size):
        """See `GatedConvolution.initial_cache`."""
        return self.convolution.initial_cache(batch_size)

    def compute_output_spec(self, inputs, embedded, key, value, return_weights=False, **kwargs):
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_weights:
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
