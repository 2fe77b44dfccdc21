"""Learning rates that rise linearly to a peak and then fall.

Keras' optimizers count from 0: `step` is the number of updates already made. The papers count from
1. Warm-up counts as the papers do, so that the first update already has a rate above 0.
"""

import math

import keras
import tensorflow as tf

from keras_transformer._utils import checks


class WarmUpSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to a peak rate. Subclasses say what follows, in `rate_after_warmup`.

    During warm-up, update number n = step + 1 has the rate
    `initial_rate + (peak_rate - initial_rate) · n / warmup_steps`; the last one has the peak rate.

    Args:
        peak_rate: the highest rate.
        warmup_steps: number of updates until the peak.
        initial_rate: the rate from which the first update is one step up.
    """

    def __init__(self, peak_rate, warmup_steps, initial_rate=0.0):
        self.peak_rate = checks.require_positive("peak_rate", peak_rate)
        self.warmup_steps = checks.require_integer("warmup_steps", warmup_steps, minimum=0)
        self.initial_rate = self._require_at_most_peak("initial_rate", initial_rate)

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        falling = self.rate_after_warmup(step)
        if self.warmup_steps == 0:
            return falling
        progress = (step + 1.0) / self.warmup_steps
        rising = self.initial_rate + (self.peak_rate - self.initial_rate) * progress
        return tf.where(step < self.warmup_steps, rising, falling)

    def rate_after_warmup(self, step):
        """Returns the rate of a float32 `step`; not used where `step` is below `warmup_steps`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `rate_after_warmup`.")

    def get_config(self):
        return {
            "peak_rate": self.peak_rate,
            "warmup_steps": self.warmup_steps,
            "initial_rate": self.initial_rate,
        }

    def _require_at_most_peak(self, name, rate):
        rate = checks.require_not_negative(name, rate)
        if rate > self.peak_rate:
            raise ValueError(
                f"`{name}` must not be above `peak_rate`; got {name}={rate} and "
                f"peak_rate={self.peak_rate}. Lower the one or raise the other."
            )
        return rate


@keras.saving.register_keras_serializable(package="keras_transformer")
class InverseSquareRootDecay(WarmUpSchedule):
    """Warm-up, then a rate that falls with the inverse square root of the number of updates.

    After warm-up, update number n = step + 1 has the rate `peak_rate · sqrt(warmup_steps / n)`.
    There is no end to plan for. Vaswani et al. 2017, "Attention Is All You Need", §5.3, state the
    same curve by the hidden_dim of the model: see `from_hidden_dim`.

    Args:
        peak_rate: the highest rate.
        warmup_steps: number of updates until the peak. At least 1: the fall is measured in
            warm-ups (after four of them half the peak rate is left), so there must be one.
        initial_rate: the rate from which the first update is one step up.

    Example:

    >>> schedule = InverseSquareRootDecay(peak_rate=0.001, warmup_steps=100)
    >>> [round(float(schedule(step)), 6) for step in (0, 49, 99, 399)]
    [1e-05, 0.0005, 0.001, 0.0005]
    """

    def __init__(self, peak_rate, warmup_steps, initial_rate=0.0):
        checks.require_positive_integer("warmup_steps", warmup_steps)
        super().__init__(peak_rate, warmup_steps, initial_rate)

    @classmethod
    def from_hidden_dim(cls, hidden_dim, warmup_steps=4000, factor=1.0):
        """Makes the paper's schedule: `factor · hidden_dim^-0.5 · min(n^-0.5, n · warmup_steps^-1.5)`.

        The two branches meet at n = `warmup_steps`, so this is the schedule with the peak rate
        `factor · (hidden_dim · warmup_steps)^-0.5`.

        Args:
            hidden_dim: M, the hidden_dim of the model.
            warmup_steps: number of updates until the peak; the paper has 4000.
            factor: multiplies the whole curve; the paper has none.

        Example:

        >>> schedule = InverseSquareRootDecay.from_hidden_dim(512)
        >>> round(schedule.peak_rate, 6)
        0.000699
        """
        hidden_dim = checks.require_positive_integer("hidden_dim", hidden_dim)
        warmup_steps = checks.require_positive_integer("warmup_steps", warmup_steps)
        factor = checks.require_positive("factor", factor)
        return cls(factor * (hidden_dim * warmup_steps) ** -0.5, warmup_steps)

    def rate_after_warmup(self, step):
        return self.peak_rate * tf.sqrt(self.warmup_steps / (step + 1.0))


class FiniteSchedule(WarmUpSchedule):
    """Warm-up, then a fall that ends after a known number of updates.

    After warm-up the rate depends on the share of the fall that remains,
    `(total_steps - step) / (total_steps - warmup_steps)`; subclasses say how, in `height`. With a
    final rate of 0 all of the `total_steps` updates still have a rate above 0.

    Args:
        peak_rate: the highest rate.
        warmup_steps: number of updates until the peak; 0 starts at the peak.
        total_steps: number of updates until the final rate, those of the warm-up included.
        final_rate: the rate from then on.
    """

    def __init__(self, peak_rate, warmup_steps, total_steps, final_rate=0.0):
        super().__init__(peak_rate, warmup_steps)
        self.total_steps = checks.require_positive_integer("total_steps", total_steps)
        self.final_rate = self._require_at_most_peak("final_rate", final_rate)
        if self.total_steps <= self.warmup_steps:
            raise ValueError(
                "`total_steps` must be more than `warmup_steps`, which it includes; got "
                f"total_steps={self.total_steps} and warmup_steps={self.warmup_steps}. "
                "Raise the one or lower the other."
            )

    def rate_after_warmup(self, step):
        remaining = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        height = self.height(tf.clip_by_value(remaining, 0.0, 1.0))
        return self.final_rate + (self.peak_rate - self.final_rate) * height

    def height(self, remaining):
        """Returns how far above the final rate (0) and towards the peak (1) the rate is."""
        raise NotImplementedError(f"{type(self).__name__} must implement `height`.")

    def get_config(self):
        return {
            "peak_rate": self.peak_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "final_rate": self.final_rate,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class CosineDecay(FiniteSchedule):
    """Warm-up, then half a cosine wave from the peak to the final rate.

    Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5,
    without the restarts.

    Args:
        peak_rate: the highest rate.
        warmup_steps: number of updates until the peak; 0 starts at the peak.
        total_steps: number of updates until the final rate, those of the warm-up included.
        final_rate: the rate from then on.

    Example:

    >>> schedule = CosineDecay(peak_rate=0.001, warmup_steps=100, total_steps=1100)
    >>> [round(float(schedule(step)), 6) for step in (0, 99, 600, 1100, 5000)]
    [1e-05, 0.001, 0.0005, 0.0, 0.0]
    """

    def height(self, remaining):
        # (1 + cos(π · (1 - remaining))) / 2, in a form in which nothing cancels near the end.
        return tf.square(tf.sin(0.5 * math.pi * remaining))


@keras.saving.register_keras_serializable(package="keras_transformer")
class LinearDecay(FiniteSchedule):
    """Warm-up, then a straight line from the peak to the final rate.

    Args:
        peak_rate: the highest rate.
        warmup_steps: number of updates until the peak; 0 starts at the peak.
        total_steps: number of updates until the final rate, those of the warm-up included.
        final_rate: the rate from then on.

    Example:

    >>> schedule = LinearDecay(peak_rate=0.001, warmup_steps=100, total_steps=1100)
    >>> [round(float(schedule(step)), 6) for step in (0, 99, 350, 1100, 5000)]
    [1e-05, 0.001, 0.00075, 0.0, 0.0]
    """

    def height(self, remaining):
        return remaining
