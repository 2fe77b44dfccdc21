"""One block of the convolutional encoder."""

import keras

from keras_transformer.layers.gated_convolution import HALF, GatedConvolution


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
