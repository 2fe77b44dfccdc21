"""Schedule of the events of a training: logs, evaluations, checkpoints, profile, ends of epochs."""

import dataclasses
from typing import TYPE_CHECKING, Self

from keras_transformer._utils.errors import ArgumentError

if TYPE_CHECKING:
    from keras_transformer.trainer.config import Recipe

#: Number of training steps, and of validation batches and examples, of a dry run.
DRY_STEPS = 2


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """Events that are due after each training step, as a function of the step's number.

    Attributes:
        total_steps: Number of steps of the training.
        epoch_batches: Number of batches of an epoch.
        accumulate: Number of batches of a step.
        log_every: Number of steps between two points of the training curves.
        evaluate_every: Number of steps between evaluations; the last step is evaluated, too.
        save_every: Number of steps between checkpoints; the last step is saved, too.
        profile: Steps after which the profiler starts and stops, or empty.
    """

    total_steps: int
    epoch_batches: int
    accumulate: int
    log_every: int
    evaluate_every: int
    save_every: int
    profile: tuple[int, ...] = ()

    @classmethod
    def for_recipe(cls, recipe: "Recipe", epoch_batches: int, max_steps: int | None = None) -> Self:
        """Returns the plan of a recipe with this number of batches in an epoch.

        Training that would end within the warm-up of a schedule with an end is an `ArgumentError`.
        """
        accumulate, training = recipe.batches.accumulate, recipe.training
        total = training.steps
        if total is None:
            total = -(-(training.epochs or 0) * epoch_batches // accumulate)
            if training.has_finite_schedule and total <= training.warmup_steps:
                raise ArgumentError(
                    "training.epochs",
                    f"so many that they take more than the {training.warmup_steps:,} steps of "
                    f"training.warmup_steps; they take {total:,} steps here",
                    training.epochs,
                    fix="Set more epochs, or a shorter warm-up.",
                    related=("training.warmup_steps",),
                )
        profile = recipe.tensorboard.profile
        return cls(
            total_steps=total if max_steps is None else min(total, max_steps),
            epoch_batches=epoch_batches,
            accumulate=accumulate,
            log_every=recipe.tensorboard.every,
            evaluate_every=recipe.evaluation.every,
            save_every=recipe.checkpoints.every,
            profile=() if profile is None else (profile[0] - 1, profile[1]),
        )

    @property
    def epoch_steps(self) -> float:
        """Number of steps of an epoch, which need not be whole."""
        return self.epoch_batches / self.accumulate

    def epoch(self, step: int) -> float:
        """Returns the number of epochs completed after a step, with a fraction."""
        return step * self.accumulate / self.epoch_batches

    def first_step(self, epoch: int) -> int:
        """Returns the number of steps made when an epoch, counted from 0, begins."""
        return -(-epoch * self.epoch_batches // self.accumulate)

    def ends_epoch(self, step: int) -> bool:
        """Returns whether an epoch ends with a step."""
        return int(self.epoch(step)) > int(self.epoch(step - 1))

    def logs(self, step: int) -> bool:
        """Returns whether the training curves get a point after a step."""
        return step % self.log_every == 0

    def evaluates(self, step: int) -> bool:
        """Returns whether the model is evaluated after a step."""
        return step % self.evaluate_every == 0 or step == self.total_steps

    def saves(self, step: int) -> bool:
        """Returns whether a regular checkpoint is due after a step."""
        return step % self.save_every == 0 or step == self.total_steps

    def next_event(self, step: int) -> int:
        """Returns the first later step after which anything is due."""
        intervals = (self.log_every, self.evaluate_every, self.save_every)
        ends = [(step // every + 1) * every for every in intervals]
        ends += [end for end in self.profile if end > step]
        return min(*ends, self.first_step(int(self.epoch(step)) + 1), self.total_steps)
