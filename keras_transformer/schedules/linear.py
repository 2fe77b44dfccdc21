"""Learning rate that falls linearly."""

import keras
import tensorflow as tf

from keras_transformer.schedules.base import FiniteSchedule, register_schedule


@register_schedule("linear")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LinearDecay(FiniteSchedule):
    """Linear warm-up, then a straight line from the peak to the final rate.

    The schedule of Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for
    Language Understanding", appendix A.2.

    Args:
        peak_rate: Float. The highest rate.
        warmup_steps: Integer. Number of steps until the peak; 0 starts at the peak.
        total_steps: Integer. Number of steps until the final rate, warm-up included.
        final_rate: Float. The rate from then on. Default 0.

    >>> schedule = LinearDecay(peak_rate=0.001, warmup_steps=100, total_steps=1100)
    >>> [round(float(schedule(step)), 6) for step in (0, 99, 350, 1100, 5000)]
    [1e-05, 0.001, 0.00075, 0.0, 0.0]
    """

    def height(self, remaining: tf.Tensor) -> tf.Tensor:
        return remaining
