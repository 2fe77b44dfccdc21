"""The plan of a training run, and the state that checkpoints store in addition to variables."""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from keras_transformer._utils.errors import ArgumentError
from keras_transformer.metrics import metric_direction
from keras_transformer.trainer.training_loop import StepRecord, TokenStatistics

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
        """Returns the plan of a recipe; if it ends in the warm-up, an `ArgumentError` is raised."""
        accumulate, training = recipe.batches.accumulate, recipe.training
        total = training.steps
        if total is None:
            total = -(-(training.epochs or 0) * epoch_batches // accumulate)
            if training.has_finite_schedule and total <= training.warmup_steps:
                steps, related = training.warmup_steps, ("training.warmup_steps",)
                expected = f"enough for more than the {steps:,} steps of training.warmup_steps; "
                expected += f"they take {total:,} steps here"
                fix = "Set more epochs, or a shorter warm-up."
                raise ArgumentError(
                    "training.epochs", expected, training.epochs, fix=fix, related=related
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
        """Returns the number of completed steps when an epoch, counted from 0, begins."""
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


@dataclasses.dataclass
class TrainingWindow:
    """Sums of metrics over consecutive training steps, and the learning rate of the last one.

    The norms leave out steps that were skipped because scaled gradients had overflowed.
    """

    statistics: TokenStatistics = dataclasses.field(default_factory=TokenStatistics)
    slots: float = 0.0
    gradient_norms: float = 0.0
    finite_norms: int = 0
    learning_rate: float = 0.0

    @classmethod
    def from_dictionary(cls, content: Mapping[str, Any]) -> Self:
        """Returns the window that `dataclasses.asdict` described."""
        return cls(**{**content, "statistics": TokenStatistics(**content["statistics"])})

    def add(self, record: StepRecord) -> None:
        """Adds the record of a step."""
        self.statistics += record.statistics
        self.slots += record.slots
        if math.isfinite(record.gradient_norm):
            self.gradient_norms += record.gradient_norm
            self.finite_norms += 1
        self.learning_rate = record.learning_rate

    def logs(self) -> dict[str, float]:
        """Returns the metrics of the steps by name."""
        return {
            **self.statistics.logs(),
            "learning_rate": self.learning_rate,
            "gradient_norm": self.gradient_norms / max(self.finite_norms, 1),
            "padding_efficiency": self.statistics.tokens / max(self.slots, 1.0),
        }


@dataclasses.dataclass
class TrainingState:
    """Running means, the best evaluation and the time of a training run."""

    window: TrainingWindow = dataclasses.field(default_factory=TrainingWindow)  # of the curves
    epoch_window: TrainingWindow = dataclasses.field(default_factory=TrainingWindow)
    #: Metrics of the last evaluation in the epoch.
    epoch_validation: dict[str, float] = dataclasses.field(default_factory=dict)
    best: dict[str, float] | None = None
    best_step: int | None = None
    evaluations_since_best: int = 0
    seconds: float = 0.0

    @classmethod
    def from_dictionary(cls, content: Mapping[str, Any]) -> Self:
        """Returns the state that `dataclasses.asdict` described."""
        names = ("window", "epoch_window")
        windows = {name: TrainingWindow.from_dictionary(content[name]) for name in names}
        return cls(**{**content, **windows})

    def add(self, record: StepRecord) -> None:
        """Adds a training step to the running means."""
        self.window.add(record)
        self.epoch_window.add(record)

    def epoch_logs(self) -> dict[str, float]:
        """Returns the metrics of the epoch so far, those of evaluations with the prefix "val_"."""
        validation = {f"val_{name}": value for name, value in self.epoch_validation.items()}
        return {**self.epoch_window.logs(), **validation}

    def end_epoch(self) -> None:
        """Starts the means of the next epoch."""
        self.epoch_window, self.epoch_validation = TrainingWindow(), {}

    def add_evaluation(self, step: int, metrics: Mapping[str, float], metric: str) -> bool:
        """Adds the metrics of an evaluation; returns whether `metric` is the best so far."""
        self.epoch_validation = dict(metrics)
        value = metrics[metric]
        # A run that was resumed with --force may have had another metric before.
        best = (self.best or {}).get(metric)
        is_min = metric_direction(metric) == "min"
        if best is None or (value < best if is_min else value > best):
            self.best, self.best_step, self.evaluations_since_best = dict(metrics), step, 0
            return True
        self.evaluations_since_best += 1
        return False
