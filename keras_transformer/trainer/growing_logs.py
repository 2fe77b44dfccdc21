"""Logs that only grow, and can be taken back to what they were at a checkpoint."""

import json
import os


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
        with self._metrics.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(line) + "\n")

    def sizes(self):
        """Returns the size of each file now, by its path in the run's directory."""
        self._flush()
        return {name: path.stat().st_size for name, path in self._files().items()}

    def cut_to(self, sizes):
        """Takes all files back to sizes that `sizes` gave; files that were not there then go."""
        for name, path in self._files().items():
            if name not in sizes:
                path.unlink()
            elif path.stat().st_size > sizes[name]:
                os.truncate(path, sizes[name])

    def _files(self):
        paths = [self._metrics, *sorted(self._events.rglob("*"))]
        root = self._metrics.parent
        return {str(path.relative_to(root)): path for path in paths if path.is_file()}
