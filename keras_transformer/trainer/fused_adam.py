"""Keras' Adam and AdamW with TensorFlow's fused kernel."""

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

# The type checker sees the attributes of the class that this is mixed into.
_Base: Any = keras.optimizers.Adam if TYPE_CHECKING else object


class _FusedStep(_Base):
    """Mixin that updates a variable with one TensorFlow operation, by the formula of Keras."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        # Only Keras' own implementation finds moments that are mirrored over replicas.
        if self.amsgrad or self._distribution_strategy.num_replicas_in_sync > 1:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        number = tf.cast(self.iterations + 1, variable.dtype)
        beta_1, beta_2, epsilon, rate = (
            tf.cast(value, variable.dtype)
            for value in (self.beta_1, self.beta_2, self.epsilon, learning_rate)
        )
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(beta_1, number),
            beta2_power=tf.pow(beta_2, number),
            lr=rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), variable.dtype),
        )


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdam(_FusedStep, keras.optimizers.Adam):
    """`keras.optimizers.Adam`, faster on a CPU, with the same arguments.

    >>> optimizer = FusedAdam(learning_rate=0.1)
    >>> variable = keras.Variable([1.0])
    >>> optimizer.apply([tf.constant([7.0])], [variable])
    >>> round(float(variable[0]), 4)
    0.9
    """


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdamW(_FusedStep, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW`, faster on a CPU, with the same arguments."""
