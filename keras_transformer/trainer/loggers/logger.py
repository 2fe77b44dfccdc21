"""Registry and interface of the loggers of training runs, and all loggers of one run.

A new destination is one file in this folder, found automatically:

    @register_logger("wandb")
    class WandbLogger(Logger):
        @classmethod
        def for_run(cls, run_directory, name): ...

        def log_metrics(self, split, step, metrics, epoch=None): ...

The file imports TensorFlow, or the client of a service, inside its methods only.
"""

# ruff: noqa: B027 (methods without a body are optional)
import abc
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from keras_transformer._utils.errors import named_file_errors
from keras_transformer._utils.registry import Kind, register

#: The registered loggers by name.
LOGGERS: dict[str, type["Logger"]] = {}

#: Names of the splits.
TRAIN, VALIDATION = "train", "validation"

#: A setting as loggers can show it.
Cell = bool | int | float | str


def register_logger(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a `Logger`, which recipes choose by `name`."""
    return register(LOGGERS, name)


class Logger(abc.ABC):
    """Destination of metrics, texts, images and hyperparameters of a training run.

    Subclasses implement `for_run`, `log_metrics`, and other methods that the destination supports.
    """

    #: Name by which the logger is registered.
    registered_name: ClassVar[str]

    @classmethod
    @abc.abstractmethod
    def for_run(cls, run_directory: pathlib.Path, name: str) -> Self:
        """Returns the logger of a new or resumed run with this directory and name."""

    @abc.abstractmethod
    def log_metrics(
        self, split: str, step: int, metrics: Mapping[str, float], epoch: float | None = None
    ) -> None:
        """Logs metrics of a step.

        Args:
            split: "train" or "validation".
            step: Number of completed training steps.
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
        self, values: Mapping[str, Cell], *, name: str | None, metrics: Sequence[str] | None
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
        """Flushes and releases resources; the logger is not used after this call."""

    def files(self) -> Iterable[pathlib.Path]:
        """Returns the files that the logger appends to; resuming cuts them to earlier sizes."""
        return ()


def _forwarded(method: str) -> Callable[..., None]:
    """Returns a method that calls the method of this name of each logger of a group."""

    def forward(group: "LoggerGroup", *args: Any, **kwargs: Any) -> None:
        for logger in group.loggers:
            getattr(logger, method)(*args, **kwargs)

    return forward


class LoggerGroup(Logger):
    """Logger that forwards everything to several loggers of one run.

    Args:
        loggers: The loggers.
        run_directory: Directory of the run, to which names of files are relative.
    """

    def __init__(self, loggers: Sequence[Logger], run_directory: pathlib.Path) -> None:
        self.loggers: tuple[Logger, ...] = tuple(loggers)
        self.run_directory = run_directory
        # Files at the last checkpoint, also those of loggers that the recipe no longer has.
        self._resumed: set[str] = set()

    @classmethod
    def for_run(
        cls, run_directory: pathlib.Path, name: str, names: Sequence[str] = ("jsonl", "tensorboard")
    ) -> Self:
        return cls([LOGGERS[each].for_run(run_directory, name) for each in names], run_directory)

    def log_metrics(
        self, split: str, step: int, metrics: Mapping[str, float], epoch: float | None = None
    ) -> None:
        for logger in self.loggers:
            logger.log_metrics(split, step, metrics, epoch)

    if not TYPE_CHECKING:  # the types are those of `Logger`
        log_text = _forwarded("log_text")
        log_images = _forwarded("log_images")
        log_histogram = _forwarded("log_histogram")
        log_hyperparameters = _forwarded("log_hyperparameters")
        finish = _forwarded("finish")
        flush = _forwarded("flush")
        close = _forwarded("close")

    def files(self) -> Iterable[pathlib.Path]:
        return [path for logger in self.loggers for path in logger.files()]

    def file_sizes(self) -> dict[str, int]:
        """Flushes each file to the disk and returns its size, by its path in the run."""
        self.flush()
        names = [self._name(path) for path in self.files()]
        others = sorted(self._resumed.difference(names))
        names += [name for name in others if (self.run_directory / name).is_file()]
        sizes = {}
        for name in names:
            path = self.run_directory / name
            with named_file_errors(path), path.open("rb") as file:
                os.fsync(file.fileno())
                sizes[name] = os.fstat(file.fileno()).st_size
        return sizes

    def truncate(self, sizes: Mapping[str, int], say: Callable[[str], None] = print) -> None:
        """Cuts all files to their sizes at a checkpoint, because a killed run may have logged more.

        Newer files are removed, and lost logs are reported with `say`.
        """
        self._resumed = set(sizes)
        for path in self.files():
            if self._name(path) not in sizes:
                path.unlink()
        for name, size in sizes.items():
            path = self.run_directory / name
            left = path.stat().st_size if path.is_file() else 0
            if left > size:
                os.truncate(path, size)
            elif left < size:
                say(
                    f"{path}: had {size:,} bytes at the checkpoint, and has {left:,} now. The "
                    "missing logs are lost; training is not affected."
                )

    def _name(self, path: pathlib.Path) -> str:
        return str(path.relative_to(self.run_directory))
