"""The path around a sublayer, with normalization before it or after."""

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_positive,
    require_rate,
)
from keras_transformer.layers.dropout import Dropout


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
        centerd = values - mean(values)
        inverse = tf.math.rsqrt(mean(tf.square(centerd)) + epsilon)  # [..., 1]
        normal = centerd * inverse

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


NORMALIZATIONS = {"layer": LayerNormalization, "rms": RMSNormalization}


def make_normalization(kind, **kwargs):
    """Returns a new layer: "layer" (Ba et al. 2016) or "rms" (Zhang & Sennrich 2019)."""
    return NORMALIZATIONS[require_choice("normalization", kind, NORMALIZATIONS)](**kwargs)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(keras.layers.Layer):
    """Adds what a sublayer made to what it was given, and normalizes.

    With `normalize_first=False` `norm(x + dropout(f(x)))`, as in Vaswani et al. 2017, section 3.1; with
    `normalize_first=True` `x + dropout(f(norm(x)))`, which trains without warm-up (Xiong et al. 2020, "On
    Layer Normalization in the Transformer Architecture").

    Args:
        normalize_first: whether to normalize the input of the sublayer rather than the sum.
        normalization: "layer" or "rms".
        dropout: rate on the sublayer's output.
        epsilon: added to the variance. Both layers' papers leave it open; 1e-6 as in tensor2tensor.

    Call arguments:
        inputs: `[..., M]`, the x above.
        change: `[..., M]`, what the sublayer made of `enter(inputs)`.

    It is a part for layers to be made of: in a functional model, where `enter` would be a second
    layer, put `keras.layers.LayerNormalization` and `keras.layers.Add` instead.

    Example:

    >>> x = keras.random.normal((2, 5, 64))
    >>> residual, sublayer = Residual(normalize_first=True), keras.layers.Dense(64)
    >>> residual(x, sublayer(residual.enter(x))).shape
    TensorShape([2, 5, 64])
    """

    def __init__(
        self, normalize_first=True, normalization="layer", dropout=0.0, epsilon=1e-6, **kwargs
    ):
        super().__init__(**kwargs)
        self.normalize_first = require_boolean("normalize_first", normalize_first)
        self.normalization = normalization
        self.dropout = require_rate("dropout", dropout)
        self.epsilon = require_positive("epsilon", epsilon)
        self.norm = make_normalization(
            normalization, epsilon=self.epsilon, name="norm", dtype=self.dtype_policy
        )
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape, change_shape=None):
        if not self.norm.built:  # `enter` may have come first
            self.norm.build(inputs_shape)
        self.built = True

    def enter(self, inputs):
        """What the sublayer is to be given."""
        return self.norm(inputs) if self.normalize_first else inputs

    def call(self, inputs, change, training=None):
        outputs = inputs + self.dropout_layer(change, training=training)
        return outputs if self.normalize_first else self.norm(outputs)

    def compute_output_shape(self, inputs_shape, change_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "normalize_first": self.normalize_first,
            "normalization": self.normalization,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
        }
