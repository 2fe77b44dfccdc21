"""How fast a run is, and how much memory it holds, while it trains."""

import json
import statistics

import keras

from keras_transformer.bench.stopwatch import peak_memory


class SpeedLog(keras.callbacks.Callback):
    """Adds a line to a file with each point of the training curve, and one at the end.

    A run that is stopped and goes on has other processes, each of which traces the model first: the
    first line of each is marked, and its speed does not count. At the end test sets have been
    translated as well: the memory of that line counts only if there is no other.

    Args:
        path: of the JSON lines.
    """

    def __init__(self, path):
        super().__init__()
        self._path = path
        self._is_first = True

    def on_train_batch_end(self, batch, logs=None):
        self._write(
            update=batch + 1,
            tokens_per_second=logs["tokens_per_second"],
            is_first=self._is_first,
        )
        self._is_first = False

    def on_train_end(self, logs=None):
        self._write(update=None)

    def _write(self, **line):
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "peak_memory_mb": peak_memory()}) + "\n")

    def summary(self):
        """The median of tokens per second, and the most memory; None where nothing was seen."""
        lines = []
        if self._path.exists():
            text = self._path.read_text(encoding="utf-8")
            # The last one may be torn, if the process was killed.
            lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        points = [line for line in lines if line["update"] is not None]
        counted = [line for line in points if not line["is_first"]] or points
        rates = [line["tokens_per_second"] for line in counted]
        memory = [line["peak_memory_mb"] for line in points or lines]
        return {
            "tokens_per_second": statistics.median(rates) if rates else None,
            "peak_memory_mb": max(memory, default=None),
        }
