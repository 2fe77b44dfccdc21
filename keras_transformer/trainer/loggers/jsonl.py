"""Metrics as JSON lines."""

import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Self

from keras_transformer._utils.errors import named_file_errors
from keras_transformer._utils.types import Path
from keras_transformer.trainer.loggers.logger import Logger, register_logger

METRICS_FILE = "metrics.jsonl"

# It depends on the clock; without it, resumed and uninterrupted runs have equal files.
_CLOCK_METRIC = "tokens_per_second"


@register_logger("jsonl")
class JsonlLogger(Logger):
    """Logger that writes a JSON object per line: split, step, epoch and metrics.

    Args:
        path: Path of the file, which is created or appended to.

    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "metrics.jsonl"
    >>> JsonlLogger(path).log_metrics("train", 50, {"loss": 2.5}, epoch=0.5)
    >>> print(path.read_text(), end="")
    {"split": "train", "step": 50, "epoch": 0.5, "loss": 2.5}
    """

    def __init__(self, path: Path) -> None:
        self.path: pathlib.Path = pathlib.Path(path)

    @classmethod
    def for_run(cls, run_directory: pathlib.Path, name: str) -> Self:
        return cls(run_directory / METRICS_FILE)

    def log_metrics(
        self, split: str, step: int, metrics: Mapping[str, float], epoch: float | None = None
    ) -> None:
        line = {"split": split, "step": step, "epoch": epoch, **metrics}
        line.pop(_CLOCK_METRIC, None)
        with named_file_errors(self.path), self.path.open("ab") as file:
            file.write((json.dumps(line) + "\n").encode())

    def files(self) -> Iterable[pathlib.Path]:
        return [self.path] if self.path.is_file() else []
