"""Learning rate that falls with the inverse square root of the step."""

from typing import Any, Self

import keras
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer.schedules.base import WarmUpSchedule, register_schedule


@register_schedule("inverse_square_root")
@keras.saving.register_keras_serializable(package="keras_transformer")
class InverseSquareRootDecay(WarmUpSchedule):
    """Linear warm-up, then decay with the inverse square root of the number of steps.

    Vaswani et al. 2017, "Attention Is All You Need", section 5.3, where the peak depends on the
    model's hidden_dim: see `from_hidden_dim`. After warm-up, step number n = step + 1 has the rate
    `peak_rate · sqrt(warmup_steps / n)`. The schedule has no end.

    Args:
        peak_rate: Float. The highest rate.
        warmup_steps: Integer. Number of steps until the peak. At least 1, because the decay is
            measured in warm-ups: after four of them half the peak rate is left.
        initial_rate: Float. The rate from which the first step is one step up. Default 0.

    >>> schedule = InverseSquareRootDecay(peak_rate=0.001, warmup_steps=100)
    >>> [round(float(schedule(step)), 6) for step in (0, 49, 99, 399)]
    [1e-05, 0.0005, 0.001, 0.0005]
    """

    minimum_warmup_steps = 1
    requires_peak_rate = False

    @classmethod
    def from_hidden_dim(
        cls, hidden_dim: int, warmup_steps: int = 4000, factor: float = 1.0
    ) -> Self:
        """Returns the paper's `factor · hidden_dim^-0.5 · min(n^-0.5, n · warmup_steps^-1.5)`.

        Both branches are equal at n = `warmup_steps`, so this is the schedule with the peak rate
        `factor · (hidden_dim · warmup_steps)^-0.5`.

        Args:
            hidden_dim: Integer. Size of the hidden states of the model.
            warmup_steps: Integer. Number of steps until the peak. Default 4000, as in the paper.
            factor: Float. Multiplies every rate. Default 1, as in the paper.

        >>> schedule = InverseSquareRootDecay.from_hidden_dim(512)
        >>> round(schedule.peak_rate, 6)
        0.000699
        """
        hidden_dim = checks.require_positive_integer("hidden_dim", hidden_dim)
        warmup_steps = checks.require_positive_integer("warmup_steps", warmup_steps)
        factor = checks.require_positive("factor", factor)
        return cls(factor * (hidden_dim * warmup_steps) ** -0.5, warmup_steps)

    @classmethod
    def for_training(
        cls, *, peak_rate: float | None, warmup_steps: int, hidden_dim: int, **settings: Any
    ) -> Self:
        if peak_rate is None:
            return cls.from_hidden_dim(hidden_dim, warmup_steps)
        return cls(peak_rate, warmup_steps)

    def rate_after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        return self.peak_rate * tf.sqrt(self.warmup_steps / (step + 1.0))
