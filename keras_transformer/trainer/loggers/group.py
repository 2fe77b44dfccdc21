"""All loggers of a run, and the sizes of their files for resuming."""

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from keras_transformer._utils.errors import named_file_errors
from keras_transformer.trainer.loggers.logger import LOGGERS, Logger

_Method = TypeVar("_Method", bound=Callable[..., None])


def _forwarded(method: _Method) -> _Method:
    """Returns a method that calls the same method of each logger of a group."""

    def forward(group: "LoggerGroup", *args: Any, **kwargs: Any) -> None:
        for logger in group.loggers:
            getattr(logger, method.__name__)(*args, **kwargs)

    return cast(_Method, forward)


class LoggerGroup(Logger):
    """Logger that forwards everything to several loggers of one run.

    Args:
        loggers: The loggers.
        run_directory: Directory of the run, to which names of files are relative.
    """

    def __init__(self, loggers: Sequence[Logger], run_directory: pathlib.Path) -> None:
        self.loggers: tuple[Logger, ...] = tuple(loggers)
        self.run_directory = run_directory
        # Names of the files at the last checkpoint, also those of loggers that the recipe no longer
        # has.
        self._resumed: set[str] = set()

    @classmethod
    def for_run(
        cls, run_directory: pathlib.Path, name: str, names: Sequence[str] = ("jsonl", "tensorboard")
    ) -> Self:
        return cls([LOGGERS[each].for_run(run_directory, name) for each in names], run_directory)

    log_metrics = _forwarded(Logger.log_metrics)
    log_text = _forwarded(Logger.log_text)
    log_images = _forwarded(Logger.log_images)
    log_histogram = _forwarded(Logger.log_histogram)
    log_hyperparameters = _forwarded(Logger.log_hyperparameters)
    finish = _forwarded(Logger.finish)
    flush = _forwarded(Logger.flush)
    close = _forwarded(Logger.close)

    def files(self) -> Iterable[pathlib.Path]:
        return [path for logger in self.loggers for path in logger.files()]

    def file_sizes(self) -> dict[str, int]:
        """Flushes all loggers and returns the size of each file, by its path in the run directory.

        The files are on the disk to these sizes when this returns, so a checkpoint may rely on it.
        """
        self.flush()
        names = [self._name(path) for path in self.files()]
        others = sorted(self._resumed.difference(names))
        names += [name for name in others if (self.run_directory / name).is_file()]
        return {name: _size_on_disk(self.run_directory / name) for name in names}

    def truncate(self, sizes: Mapping[str, int], say: Callable[[str], None] = print) -> None:
        """Cuts all files to the sizes that `file_sizes` returned; newer files are removed.

        A killed run has logged more than its last checkpoint records. Everything after that
        checkpoint happens and is logged again when the run is resumed.

        Args:
            sizes: Sizes by path in the run directory.
            say: Function that shows a text to the user.
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


def _size_on_disk(path: pathlib.Path) -> int:
    with named_file_errors(path), path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size
