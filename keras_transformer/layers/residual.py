"""The residual connection of a sublayer, with its normalization and dropout."""

from typing import Any

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_positive,
    require_rate,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.types import Shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Dropout with one random byte for each value instead of four.

    Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting". On
    a CPU, it takes less than half of the time of `keras.layers.Dropout`, most of which is spent on
    drawing random numbers. Most rates are no multiple of 1/256, so each call rounds its threshold
    up or down at random: every value is dropped with probability `rate` exactly.

    Args:
        rate: Float. The probability of dropping a value; the other values are scaled up.
        seed: Integer. Seed of the random numbers. Default None: a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: A tensor of any shape.
        training: Boolean. Whether to drop values. Default False.

    >>> dropout = Dropout(0.25, seed=1)
    >>> sorted(set(dropout(tf.ones([100]), training=True).numpy().tolist()))
    [0.0, 1.3333333730697632]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(rate, seed=seed, **kwargs)

    def call(self, inputs: tf.Tensor, training: bool | None = False) -> tf.Tensor:
        if not training or not 0 < self.rate <= 255 / 256:  # a byte has no higher threshold
            return super().call(inputs, training=training)
        size = tf.size(inputs)
        shape, seed = [size // 8 + 2], self.next_seed()
        words = tf.random.stateless_uniform(shape, seed, None, None, tf.uint64)
        random = tf.bitwise.right_shift(words[0], tf.constant(40, tf.uint64))
        unit = tf.cast(random, tf.float32) * 2.0**-24  # in [0, 1)
        threshold = tf.floor(256 * self.rate + unit) - 128
        bytes_ = tf.reshape(tf.bitcast(words[1:], tf.int8), [-1])[:size]
        is_kept = tf.cast(bytes_ >= tf.cast(threshold, tf.int8), inputs.dtype)
        outputs = inputs * tf.reshape(is_kept * (1 / (1 - self.rate)), tf.shape(inputs))
        outputs.set_shape(inputs.shape)
        return outputs

    def next_seed(self) -> tf.Tensor:
        """Returns the seed of a call as int32 `[2]`, as XLA requires; Keras uses int64 for GPUs."""
        state = self.seed_generator.next()
        return tf.cast(tf.math.floormod(state, tf.int32.max - 1), tf.int32)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["noise_shape"]
        return config


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras' layer normalization over the last axis, with a faster gradient.

    Automatic differentiation of mean and variance accesses memory about twice as often as the
    gradient that is written out here. Values and gradients equal those of Keras up to rounding.
    Ba et al. 2016, "Layer Normalization".

    Args:
        epsilon: Float. Added to the variance. Defaults to 1e-3.
        **kwargs: Arguments of `keras.layers.LayerNormalization`. The axis is always the last.

    Call arguments:
        inputs: `[..., M]`.

    >>> x = keras.Input((None, 64))
    >>> y = LayerNormalization()(x)
    >>> keras.Model(x, y).count_params()
    128
    """

    def __init__(self, epsilon: float = 1e-3, **kwargs: Any) -> None:
        kwargs.pop("axis", None)
        kwargs.pop("rms_scaling", None)
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, inputs: Any) -> Any:
        if self.gamma is None or self.beta is None:
            return super().call(inputs)
        # The mean of many squares is too imprecise in half precision.
        values = tf.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        gamma, beta = (tf.cast(weight, values.dtype) for weight in (self.gamma, self.beta))
        return tf.cast(_normalize(values, gamma, beta, self.epsilon), self.compute_dtype)


def _normalize(values: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns values `[..., M]` with mean 0 and variance 1 in each row, times gamma, plus beta."""

    def mean(rows: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(rows, axis=-1, keepdims=True)

    @tf.custom_gradient
    def normalize(values: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        centered = values - mean(values)
        inverse = tf.math.rsqrt(mean(tf.square(centered)) + epsilon)  # [..., 1]
        normal = centered * inverse

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            of_normal = upstream * gamma
            along = mean(of_normal * normal)
            of_values = (of_normal - mean(of_normal) - normal * along) * inverse
            others = tf.range(tf.rank(upstream) - 1)
            of_gamma = tf.reduce_sum(upstream * normal, axis=others)
            return of_values, of_gamma, tf.reduce_sum(upstream, axis=others)

        return normal * gamma + beta, gradient

    return normalize(values, gamma, beta)


@keras.saving.register_keras_serializable(package="keras_transformer")
class RMSNormalization(keras.layers.RMSNormalization):
    """RMS normalization that keeps implicit masks, unlike `keras.layers.RMSNormalization`.

    Zhang & Sennrich 2019, "Root Mean Square Layer Normalization".

    Args:
        **kwargs: Arguments of `keras.layers.RMSNormalization`, such as `axis` and `epsilon`.

    >>> x = keras.Input((None, 64))
    >>> y = RMSNormalization()(x)
    >>> keras.Model(x, y).count_params()
    64
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True


#: The normalization layers by name.
NORMALIZATIONS: dict[str, type[keras.layers.Layer]] = {
    "layer": LayerNormalization,
    "rms": RMSNormalization,
}


def make_normalization(kind: str, **kwargs: Any) -> keras.layers.Layer:
    """Returns a new normalization layer, "layer" or "rms"; `kwargs` are its arguments."""
    return NORMALIZATIONS[require_choice("normalization", kind, NORMALIZATIONS)](**kwargs)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(ConfiguredLayer):
    """A residual connection around a sublayer f, with normalization and dropout.

    With `normalize_first=False` it computes `norm(x + dropout(f(x)))`, as in Vaswani et al. 2017,
    section 3.1; with `normalize_first=True` `x + dropout(f(norm(x)))`, which trains without warm-up
    (Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture").

    f is computed between `sublayer_inputs` and the call. In a functional model use a normalization
    layer and `keras.layers.Add` instead.

    Args:
        normalize_first: Boolean. Pre-norm (True) or post-norm (False). Defaults to True.
        normalization: String. "layer" or "rms". Defaults to "layer".
        dropout: Float. Dropout rate of the sublayer's outputs. Defaults to 0.
        epsilon: Float. Added to the variance. Defaults to 1e-6, as in tensor2tensor.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[..., M]`, the x above.
        change: `[..., M]`, the sublayer's outputs for `sublayer_inputs(inputs)`.
        training: Boolean. Whether to apply dropout.

    >>> x = keras.random.normal((2, 5, 64))
    >>> residual, sublayer = Residual(normalize_first=True), keras.layers.Dense(64)
    >>> residual(x, sublayer(residual.sublayer_inputs(x))).shape
    TensorShape([2, 5, 64])
    """

    def __init__(
        self,
        normalize_first: bool = True,
        normalization: str = "layer",
        dropout: float = 0.0,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.normalize_first: bool = require_boolean("normalize_first", normalize_first)
        self.normalization: str = normalization
        self.dropout: float = require_rate("dropout", dropout)
        self.epsilon: float = require_positive("epsilon", epsilon)
        self.norm: keras.layers.Layer = make_normalization(
            normalization, epsilon=self.epsilon, name="norm", dtype=self.dtype_policy
        )
        self.dropout_layer: Dropout = Dropout(self.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape, change_shape: Shape | None = None) -> None:
        if not self.norm.built:  # `sublayer_inputs` may have built it
            self.norm.build(inputs_shape)

    def sublayer_inputs(self, inputs: Any) -> Any:
        """Returns the inputs of the sublayer: normalized with `normalize_first`, else as given."""
        return self.norm(inputs) if self.normalize_first else inputs

    def call(self, inputs: Any, change: Any, training: bool | None = None) -> Any:
        outputs = inputs + self.dropout_layer(change, training=training)
        return outputs if self.normalize_first else self.norm(outputs)

    def compute_output_shape(self, inputs_shape: Shape, change_shape: Shape) -> Shape:
        return inputs_shape
