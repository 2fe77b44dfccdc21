"""The state of a training run beside its variables, as checkpoints store it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

from keras_transformer.metrics import metric_direction
from keras_transformer.trainer.training_loop import StepRecord, TokenStatistics


@dataclasses.dataclass
class TrainingWindow:
    """Running means of metrics over consecutive training steps.

    All attributes are sums, except for the learning rate of the last step. A gradient that
    overflowed, as happens with loss scaling, is left out of the mean norm, because its step was
    skipped.
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
    """Running means, the best evaluation and the time of a training run.

    `window` has the means since the last point of the training curves, `epoch_window` those of the
    epoch, `epoch_validation` the metrics of the last evaluation in it. `seconds` leaves out the
    time between interruption and resumption.
    """

    window: TrainingWindow = dataclasses.field(default_factory=TrainingWindow)
    epoch_window: TrainingWindow = dataclasses.field(default_factory=TrainingWindow)
    epoch_validation: dict[str, float] = dataclasses.field(default_factory=dict)
    best: dict[str, float] | None = None
    best_step: int | None = None
    evaluations_since_best: int = 0
    seconds: float = 0.0

    @classmethod
    def from_dictionary(cls, content: Mapping[str, Any]) -> Self:
        """Returns the state that `dataclasses.asdict` described."""
        windows = {
            name: TrainingWindow.from_dictionary(content[name])
            for name in ("window", "epoch_window")
        }
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
