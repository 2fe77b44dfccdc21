"""Registry of the learning rate schedules, and the linear warm-up that they share."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer._utils.configuration import constructor_arguments
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.registry import Kind, register

#: The registered schedules by name.
SCHEDULES: dict[str, type["WarmUpSchedule"]] = {}


def register_schedule(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a `WarmUpSchedule` by `name` for recipes."""
    return register(SCHEDULES, name)


class WarmUpSchedule(keras.optimizers.schedules.LearningRateSchedule, abc.ABC):
    """Base of the schedules that rise linearly to a peak rate and then fall.

    Keras counts steps from 0, the papers from 1. During warm-up, step number n = step + 1 has the
    rate `initial_rate + (peak_rate - initial_rate) · n / warmup_steps`, so that the first step has
    a rate above 0, and the last one the peak rate.
    Subclasses implement `rate_after_warmup`.

    Args:
        peak_rate: Float. The highest rate.
        warmup_steps: Integer. Number of steps until the peak.
        initial_rate: Float. The rate from which the first step is one step up. Default 0.
    """

    #: Name by which the schedule is registered.
    registered_name: ClassVar[str]
    #: Whether the schedule reaches a `final_rate` after `total_steps`.
    is_finite: ClassVar[bool] = False
    #: Smallest number of warm-up steps.
    minimum_warmup_steps: ClassVar[int] = 0
    #: Whether `for_training` needs a peak rate, because there is no default.
    requires_peak_rate: ClassVar[bool] = True

    def __init__(self, peak_rate: float, warmup_steps: int, initial_rate: float = 0.0) -> None:
        self.peak_rate: float = checks.require_positive("peak_rate", peak_rate)
        self.warmup_steps: int = checks.require_integer(
            "warmup_steps", warmup_steps, minimum=self.minimum_warmup_steps
        )
        self.initial_rate: float = self._require_at_most_peak("initial_rate", initial_rate)

    @classmethod
    def for_training(
        cls,
        *,
        peak_rate: float | None,
        warmup_steps: int,
        total_steps: int,
        final_rate: float = 0.0,
        hidden_dim: int,
    ) -> Self:
        """Returns the schedule of a training run; every subclass takes the settings that it needs.

        Args:
            peak_rate: The highest rate; None for the default of the schedule, if it has one.
            warmup_steps: Number of steps until the peak.
            total_steps: Number of steps of the whole run.
            final_rate: The rate at the end, for a finite schedule.
            hidden_dim: Size of the hidden states of the model.
        """
        peak_rate = checks.require_positive("peak_rate", peak_rate)
        # A run that is shorter than its warm-up, such as a dry run, never reaches the decay.
        end = (max(total_steps, warmup_steps + 1), final_rate) if cls.is_finite else ()
        return cls(peak_rate, warmup_steps, *end)

    def __call__(self, step: Any) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        falling = self.rate_after_warmup(step)
        if self.warmup_steps == 0:
            return falling
        progress = (step + 1.0) / self.warmup_steps
        rising = self.initial_rate + (self.peak_rate - self.initial_rate) * progress
        return tf.where(step < self.warmup_steps, rising, falling)

    @abc.abstractmethod
    def rate_after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the rate of a float32 `step`; ignored while `step` is below `warmup_steps`."""

    def get_config(self) -> dict[str, Any]:
        return constructor_arguments(self)

    def _require_at_most_peak(self, name: str, rate: float) -> float:
        rate = checks.require_not_negative(name, rate)
        if rate > self.peak_rate:
            raise UserError(
                f"`{name}` must not be above `peak_rate`; got {name}={rate} and "
                f"peak_rate={self.peak_rate}.",
                fix=f"Lower `{name}` or raise `peak_rate`.",
            )
        return rate


class FiniteSchedule(WarmUpSchedule):
    """Base of the schedules that end at a final rate after a known number of steps.

    After warm-up the rate depends on the share of the decay that remains,
    `(total_steps - step) / (total_steps - warmup_steps)`. Subclasses implement `height`. With a
    final rate of 0 all of the `total_steps` steps still have a rate above 0.

    Args: those of `LinearDecay`.
    """

    is_finite = True

    def __init__(
        self, peak_rate: float, warmup_steps: int, total_steps: int, final_rate: float = 0.0
    ) -> None:
        super().__init__(peak_rate, warmup_steps)
        self.total_steps: int = checks.require_positive_integer("total_steps", total_steps)
        self.final_rate: float = self._require_at_most_peak("final_rate", final_rate)
        if self.total_steps <= self.warmup_steps:
            raise UserError(
                "`total_steps` must be more than `warmup_steps`, which it includes; got "
                f"total_steps={self.total_steps} and warmup_steps={self.warmup_steps}.",
                fix="Raise `total_steps` or lower `warmup_steps`.",
            )

    def rate_after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        remaining = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        height = self.height(tf.clip_by_value(remaining, 0.0, 1.0))
        return self.final_rate + (self.peak_rate - self.final_rate) * height

    @abc.abstractmethod
    def height(self, remaining: tf.Tensor) -> tf.Tensor:
        """Returns the rate relative to the final rate (0) and the peak rate (1).

        `remaining` is the share of the decay that remains, from 1 down to 0.
        """
