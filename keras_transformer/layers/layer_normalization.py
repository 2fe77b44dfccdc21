"""Layer normalisation with its gradient written out."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras' layer over the last axis, with fewer passes over the values.

    What automatic differentiation makes of mean and variance reads and writes the values about
    twice as often as need be. Values and gradients are those of Keras, but for rounding. (Ba et al.
    2016, "Layer Normalization".)

    Args:
        epsilon: added to the variance.
        **kwargs: see `keras.layers.LayerNormalization`; the axis is the last one.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = LayerNormalization()(x)
    >>> keras.Model(x, y).count_params()
    128
    """

    def __init__(self, epsilon=1e-3, **kwargs):
        kwargs.pop("axis", None)
        kwargs.pop("rms_scaling", None)
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, inputs):
        if self.gamma is None or self.beta is None:
            return super().call(inputs)
        # The mean of many squares is not for half precision.
        values = tf.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        gamma, beta = (tf.cast(weight, values.dtype) for weight in (self.gamma, self.beta))
        return tf.cast(_normalize(values, gamma, beta, self.epsilon), self.compute_dtype)


def _normalize(values, gamma, beta, epsilon):
    """Values `[..., M]` with mean 0 and variance 1 in each row, times gamma, plus beta."""

    def mean(rows):
        return tf.reduce_mean(rows, axis=-1, keepdims=True)

    @tf.custom_gradient
    def normalize(values, gamma, beta):
        centred = values - mean(values)
        inverse = tf.math.rsqrt(mean(tf.square(centred)) + epsilon)  # [..., 1]
        normal = centred * inverse

        def gradient(upstream):
            of_normal = upstream * gamma
            along = mean(of_normal * normal)
            of_values = (of_normal - mean(of_normal) - normal * along) * inverse
            others = tf.range(tf.rank(upstream) - 1)
            return (
                of_values,
                tf.reduce_sum(upstream * normal, axis=others),
                tf.reduce_sum(upstream, axis=others),
            )

        return normal * gamma + beta, gradient

    return normalize(values, gamma, beta)
