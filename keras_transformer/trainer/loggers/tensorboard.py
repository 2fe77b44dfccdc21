"""TensorBoard event files."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from keras_transformer._utils.errors import named_file_errors
from keras_transformer._utils.types import Path
from keras_transformer.trainer.loggers.event_file import EventFile
from keras_transformer.trainer.loggers.logger import VALIDATION, Cell, Logger, register_logger

_FILES: dict[str, EventFile] = {}


def event_file(directory: Path) -> EventFile:
    """Returns the event file of a directory, which all callers share until it is closed."""
    path = os.path.realpath(directory)
    if path not in _FILES:
        _FILES[path] = EventFile(pathlib.Path(path))
    return _FILES[path]


@register_logger("tensorboard")
class TensorBoardLogger(Logger):
    """Logger that writes event files, one subdirectory per split, which is a run in TensorBoard.

    Training and validation write the same tags, so that their curves share a chart.

    Args:
        log_dir: The directory that is given to TensorBoard, or a subdirectory for this run.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir: pathlib.Path = pathlib.Path(log_dir)

    @classmethod
    def for_run(cls, run_directory: pathlib.Path, name: str) -> Self:
        return cls(run_directory / "tensorboard")

    def log_metrics(
        self, split: str, step: int, metrics: Mapping[str, float], epoch: float | None = None
    ) -> None:
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        # TensorBoard stores float32: a larger number, such as an exploded perplexity, is infinite.
        with np.errstate(over="ignore"):
            for name, value in metrics.items():
                self._write(split, step, scalar_pb(name, np.float32(value)))

    def log_text(self, split: str, step: int, name: str, markdown: str) -> None:
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._write(split, step, text_pb(name, markdown))

    def log_images(self, split: str, step: int, name: str, images: Sequence[bytes]) -> None:
        from tensorboard.compat.proto import summary_pb2
        from tensorboard.plugins.image import metadata
        from tensorboard.util import tensor_util

        settings = metadata.create_summary_metadata(display_name=None, description=None)
        # The plugin expects width and height first, but reads them from the files themselves.
        content = tensor_util.make_tensor_proto([b"", b"", *images])
        summary = summary_pb2.Summary()  # pyright: ignore
        summary.value.add(tag=name, metadata=settings, tensor=content)
        self._write(split, step, summary)

    def log_histogram(self, split: str, step: int, name: str, values: Any) -> None:
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb

        array = np.asarray(values, np.float32)
        self._write(split, step, histogram_pb(name, array[np.isfinite(array)]))

    def log_hyperparameters(
        self, values: Mapping[str, Cell], *, name: str | None, metrics: Sequence[str] | None
    ) -> None:
        from tensorboard.plugins.hparams import api

        # The plugin looks for metrics in the directory of the hyperparameters.
        if metrics is not None:
            columns = [api.Metric(tag) for tag in metrics]
            parameters = [api.HParam(key) for key in values]
            self._write(VALIDATION, 0, api.hparams_config_pb(parameters, columns))
        self._write(VALIDATION, 0, api.hparams_pb(dict(values), trial_id=name))

    def finish(self, step: int) -> None:
        from tensorboard.compat.proto import summary_pb2
        from tensorboard.plugins.hparams import api_pb2
        from tensorboard.plugins.hparams import summary as hparams

        ended = hparams.session_end_pb(api_pb2.STATUS_SUCCESS)  # pyright: ignore
        # The plugin returns the summary of TensorFlow, an equal message of another class.
        summary = summary_pb2.Summary()  # pyright: ignore
        summary.ParseFromString(ended.SerializeToString())
        self._write(VALIDATION, step, summary)

    def flush(self) -> None:
        with named_file_errors(self.log_dir):
            for path in self._open_directories():
                _FILES[path].flush()

    def close(self) -> None:
        with named_file_errors(self.log_dir):
            for path in self._open_directories():
                _FILES.pop(path).close()

    def files(self) -> Iterable[pathlib.Path]:
        return [path for path in sorted(self.log_dir.rglob("*")) if path.is_file()]

    def _write(self, split: str, step: int, summary: Any) -> None:
        """Writes a summary to the event file of a split."""
        with named_file_errors(self.log_dir):
            event_file(self.log_dir / split).write(step, summary)

    def _open_directories(self) -> list[str]:
        log_dir = os.path.realpath(self.log_dir)
        return [path for path in _FILES if pathlib.Path(path).is_relative_to(log_dir)]
