"""Learning rate that falls along half a cosine wave."""

import math

import keras
import tensorflow as tf

from keras_transformer.schedules.base import FiniteSchedule, register_schedule


@register_schedule("cosine")
@keras.saving.register_keras_serializable(package="keras_transformer")
class CosineDecay(FiniteSchedule):
    """Linear warm-up, then half a cosine wave from the peak to the final rate.

    Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5,
    without the restarts.

    Args:
        peak_rate: Float. The highest rate.
        warmup_steps: Integer. Number of steps until the peak; 0 starts at the peak.
        total_steps: Integer. Number of steps until the final rate, warm-up included.
        final_rate: Float. The rate from then on. Default 0.

    >>> schedule = CosineDecay(peak_rate=0.001, warmup_steps=100, total_steps=1100)
    >>> [round(float(schedule(step)), 6) for step in (0, 99, 600, 1100, 5000)]
    [1e-05, 0.001, 0.0005, 0.0, 0.0]
    """

    def height(self, remaining: tf.Tensor) -> tf.Tensor:
        # (1 + cos(π · (1 - remaining))) / 2, in a form without cancellation near the end.
        return tf.square(tf.sin(0.5 * math.pi * remaining))
