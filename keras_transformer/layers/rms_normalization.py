"""Normalisation by the root of the mean square."""

import keras


@keras.saving.register_keras_serializable(package="keras_transformer")
class RMSNormalization(keras.layers.RMSNormalization):
    """Keras' own layer, which lets masks through where Keras drops them with a warning.

    Zhang & Sennrich 2019, "Root Mean Square Layer Normalization". Arguments: see
    `keras.layers.RMSNormalization`.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = RMSNormalization()(x)
    >>> keras.Model(x, y).count_params()
    64
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
