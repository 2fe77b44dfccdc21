"""What came out of a finished run, kept in its directory."""

import json
import os

from keras_transformer._utils.errors import named_file_errors


class GrowingLogs:
    """The metrics as JSON lines, and the event files of TensorBoard beside them.

    A run that was killed has told more than its last checkpoint knows. When it goes on from there,
    all of that happens again and is told again; so the logs are first cut to the sizes that they
    had at the checkpoint. Nothing is in them twice, and no line is torn.

    Args:
        metrics: the path of the JSON lines.
        events: the directory of the event files.
        flush: a function that brings everything told so far to the disk.
    """

    def __init__(self, metrics, events, flush):
        self._metrics = metrics
        self._events = events
        self._flush = flush

    def write(self, line):
        """Adds a line: a dictionary for JSON."""
        text = json.dumps(line) + "\n"
        with named_file_errors(self._metrics), self._metrics.open("ab") as file:
            file.write(text.encode())

    def sizes(self):
        """Returns the size of each file now, by its path in the run's directory.

        So much of each is on the disk then: a checkpoint that knows these sizes can rely on it.
        """
        with named_file_errors(self._events):
            self._flush()
            return {name: _size_on_disk(path) for name, path in self._files().items()}

    def cut_to(self, sizes, say=print):
        """Takes all files back to sizes that `sizes` gave; files that were not there then go.

        Args:
            sizes: by path in the run's directory.
            say: a function of a text, for what a person should know: what is gone stays gone.
        """
        files = self._files()
        for name, path in files.items():
            if name not in sizes:
                path.unlink()
            elif path.stat().st_size > sizes[name]:
                os.truncate(path, sizes[name])
        for name, size in sizes.items():
            left = files[name].stat().st_size if name in files else 0
            if left < size:
                say(
                    f"{self._metrics.parent / name}: had {size:,} bytes at the checkpoint, and has "
                    f"{left:,} now. What it told is lost; the training itself is not touched by it."
                )

    def _files(self):
        paths = [self._metrics, *sorted(self._events.rglob("*"))]
        root = self._metrics.parent
        return {str(path.relative_to(root)): path for path in paths if path.is_file()}


def _size_on_disk(path):
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size
