"""Registry and interface of the loggers that receive what a training run reports.

A new destination is one file in this folder, found automatically:

    @register_logger("wandb")
    class WandbLogger(Logger):
        @classmethod
        def for_run(cls, run_directory, name): ...

        def log_metrics(self, split, step, metrics, epoch=None): ...

The file imports TensorFlow, or the client of a service, inside its methods only, because the names
of loggers are checked without them.
"""

# ruff: noqa: B027 (methods without a body are optional)
import abc
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from keras_transformer._utils.registry import Kind, register

#: The registered loggers by name.
LOGGERS: dict[str, type["Logger"]] = {}

#: Names of the splits.
TRAIN, VALIDATION = "train", "validation"


def register_logger(name: str) -> Callable[[Kind], Kind]:
    """Returns a class decorator that adds a `Logger` to `LOGGERS`; recipes choose it by `name`."""
    return register(LOGGERS, name)


class Logger(abc.ABC):
    """Destination of metrics, texts, images and hyperparameters of a training run.

    Subclasses implement `for_run` and `log_metrics`, and any other method whose content the
    destination can show; by default the other methods do nothing.
    """

    #: Name by which the logger is registered.
    registered_name: ClassVar[str]

    @classmethod
    @abc.abstractmethod
    def for_run(cls, run_directory: pathlib.Path, name: str) -> Self:
        """Returns the logger of a run, which may have been started before.

        Args:
            run_directory: Directory of the run.
            name: Name of the run.
        """

    @abc.abstractmethod
    def log_metrics(
        self, split: str, step: int, metrics: Mapping[str, float], epoch: float | None = None
    ) -> None:
        """Logs metrics of a step.

        Args:
            split: "train" or "validation".
            step: Number of training steps made.
            metrics: Numbers by name.
            epoch: Number of epochs completed, with a fraction, if it is known.
        """

    def log_text(self, split: str, step: int, name: str, markdown: str) -> None:
        """Logs a text in Markdown."""

    def log_images(self, split: str, step: int, name: str, images: Sequence[bytes]) -> None:
        """Logs several images, each the content of a PNG file."""

    def log_histogram(self, split: str, step: int, name: str, values: Any) -> None:
        """Logs the distribution of the values of a tensor or array."""

    def log_hyperparameters(
        self,
        values: Mapping[str, bool | int | float | str],
        *,
        name: str | None = None,
        metrics: Sequence[str] | None = None,
    ) -> None:
        """Logs the settings of a run, once, before its first step.

        Args:
            values: Settings by name.
            name: Name of the run; None for a name that the destination chooses.
            metrics: Names of the metrics by which runs are compared; None for all.
        """

    def finish(self, step: int) -> None:
        """Logs that training has completed after `step` steps."""

    def flush(self) -> None:
        """Writes everything logged so far to its destination."""

    def close(self) -> None:
        """Flushes and releases resources; the logger is not used afterwards."""

    def files(self) -> Iterable[pathlib.Path]:
        """Returns the files of the run that the logger appends to.

        A checkpoint records their sizes. When a run is resumed from it, they are cut to these
        sizes, so that nothing is logged twice.
        """
        return ()


def as_logger(destination: Logger | str | os.PathLike[str]) -> Logger:
    """Returns a `Logger` as it is, and a `TensorBoardLogger` for the path of a directory."""
    if isinstance(destination, Logger):
        return destination
    from keras_transformer.trainer.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(destination)
