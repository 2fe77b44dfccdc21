"""Event files of TensorBoard, in the order of their events and without the name of the machine.

`tf.summary` puts the host name into the name of each file, and the present time into names and
events. TensorBoard reads the files of a directory in the order of their names, so a clock that is
set back would put later events before earlier ones.
"""

import os
import pathlib
import re
import time
from collections.abc import Iterator
from typing import Any

# Maximum seconds until a reader sees an event, if another event is written after it.
_FLUSH_SECONDS = 10
_NAME = re.compile(r"events\.out\.tfevents\.(\d{10,12})\..+")
# The first event of every file, which tells its format.
_VERSION = "brain.Event:2"


class EventFile:
    """A new event file in a directory, whose name follows those of the files that are there.

    Args:
        directory: Directory of the file; it is created.

    >>> import tempfile
    >>> from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    >>> file = EventFile(pathlib.Path(tempfile.mkdtemp()))
    >>> file.write(1, scalar_pb("loss", 2.5))
    >>> file.close()
    """

    def __init__(self, directory: pathlib.Path) -> None:
        import tensorflow as tf

        directory.mkdir(parents=True, exist_ok=True)
        last = max(_seconds_of_files(directory), default=0)
        # A year-long error of the clock needs no more digits; names are compared as text.
        second = min(max(int(time.time()), last + 1), 10**10 - 1)
        self.path: pathlib.Path = directory / f"events.out.tfevents.{second}.{os.getpid()}.0.v2"
        self._time = float(second)
        self._flushed = time.monotonic()
        self._file = tf.io.TFRecordWriter(str(self.path))
        self._write(file_version=_VERSION)
        self.flush()

    def write(self, step: int, summary: Any) -> None:
        """Writes a summary, a protocol buffer of TensorBoard, as an event of a training step."""
        self._write(step=step, summary=summary)
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Makes all events visible to readers."""
        self._file.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._file.close()

    def _write(self, **fields: Any) -> None:
        from tensorboard.compat.proto import event_pb2

        self._time = max(self._time, time.time())
        event = event_pb2.Event(wall_time=self._time, **fields)  # pyright: ignore
        self._file.write(event.SerializeToString())


def _seconds_of_files(directory: pathlib.Path) -> Iterator[int]:
    for path in directory.iterdir():
        if found := _NAME.fullmatch(path.name):
            yield int(found[1])
