"""TensorBoard event files."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from keras_transformer._utils.errors import named_file_errors
from keras_transformer._utils.types import Path
from keras_transformer.trainer.loggers.logger import VALIDATION, Cell, Logger, register_logger

if TYPE_CHECKING:
    import tensorflow as tf

# Maximum seconds until a reader sees an event, if another event is written after it.
_FLUSH_MILLISECONDS = 10_000
_WRITERS: dict[str, "tf.summary.SummaryWriter"] = {}


def event_writer(directory: Path) -> "tf.summary.SummaryWriter":
    """Returns the summary writer of a directory; all callers share one writer and one file."""
    import tensorflow as tf

    path = os.path.realpath(directory)
    if path not in _WRITERS:
        _WRITERS[path] = tf.summary.create_file_writer(path, flush_millis=_FLUSH_MILLISECONDS)
    return _WRITERS[path]


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
        # TensorBoard stores float32: a larger number, such as an exploded perplexity, is infinite.
        with self._writing(split, step) as summary, np.errstate(over="ignore"):
            for name, value in metrics.items():
                summary.scalar(name, np.float32(value))

    def log_text(self, split: str, step: int, name: str, markdown: str) -> None:
        with self._writing(split, step) as summary:
            summary.text(name, markdown)

    def log_images(self, split: str, step: int, name: str, images: Sequence[bytes]) -> None:
        import tensorflow as tf
        from tensorboard.plugins.image import metadata

        settings = metadata.create_summary_metadata(display_name=None, description=None)
        with self._writing(split, step) as summary:
            # The plugin expects width and height first, but reads them from the files themselves.
            summary.write(name, tf.constant([b"", b"", *images]), metadata=settings)

    def log_histogram(self, split: str, step: int, name: str, values: Any) -> None:
        import tensorflow as tf

        with self._writing(split, step) as summary:
            summary.histogram(name, tf.cast(values, tf.float32))

    def log_hyperparameters(
        self, values: Mapping[str, Cell], *, name: str | None, metrics: Sequence[str] | None
    ) -> None:
        from tensorboard.plugins.hparams import api

        # The plugin looks for metrics in the directory of the hyperparameters.
        with self._writing(VALIDATION, 0):
            if metrics is not None:
                columns = [api.Metric(tag) for tag in metrics]
                api.hparams_config([api.HParam(key) for key in values], columns)
            api.hparams(dict(values), trial_id=name)

    def finish(self, step: int) -> None:
        from tensorboard.plugins.hparams import api_pb2
        from tensorboard.plugins.hparams import summary as hparams

        ended = hparams.session_end_pb(api_pb2.STATUS_SUCCESS)  # pyright: ignore
        with self._writing(VALIDATION, step) as summary:
            summary.experimental.write_raw_pb(ended.SerializeToString())

    def flush(self) -> None:
        with named_file_errors(self.log_dir):
            for path in self._open_directories():
                _WRITERS[path].flush()

    def close(self) -> None:
        with named_file_errors(self.log_dir):
            for path in self._open_directories():
                _WRITERS.pop(path).close()

    def files(self) -> Iterable[pathlib.Path]:
        return [path for path in sorted(self.log_dir.rglob("*")) if path.is_file()]

    @contextlib.contextmanager
    def _writing(self, split: str, step: int) -> Iterator[Any]:
        """Yields `tf.summary`, which writes to the event file of a split."""
        import tensorflow as tf

        with named_file_errors(self.log_dir), event_writer(self.log_dir / split).as_default(step):
            yield tf.summary

    def _open_directories(self) -> list[str]:
        log_dir = os.path.realpath(self.log_dir)
        return [path for path in _WRITERS if pathlib.Path(path).is_relative_to(log_dir)]
