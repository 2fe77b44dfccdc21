"""Results of fuzzing: counts of executions, and inputs that ended in an unexpected error."""

import mmap
import pathlib
import struct
import traceback
from typing import NamedTuple

from training.reliability.fuzz.targets import Reader, attempt

_COUNTS = struct.Struct("<QQ")


class Counts(NamedTuple):
    """Numbers of executions and of inputs that were accepted."""

    executions: int
    accepted: int


class Recorder:
    """Runs a reader on inputs, counts, and keeps the first input of each kind of error.

    The counts are in a mapped file, so that they survive a crash of the process. Each finding is a
    file with the input and one with the traceback.

    Args:
        directory: Directory for counts and findings; it is created.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        path = directory / "counts"
        if not path.exists():
            path.write_bytes(bytes(_COUNTS.size))
        with path.open("r+b") as file:
            self._mapping = mmap.mmap(file.fileno(), _COUNTS.size)
        self._executions, self._accepted = _COUNTS.unpack(self._mapping[:])

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        return Counts(*_COUNTS.unpack(self._mapping[:]))

    @property
    def findings(self) -> list[pathlib.Path]:
        """Files with the inputs of the findings."""
        return sorted(self.directory.glob("*.input"))

    def run(self, reader: Reader, data: bytes) -> None:
        """Runs the reader on one input, and keeps it if it ends in an error."""
        self._executions += 1
        try:
            self._accepted += attempt(reader, data)
        except Exception as error:
            self._keep(error, data)
        _COUNTS.pack_into(self._mapping, 0, self._executions, self._accepted)

    def _keep(self, error: Exception, data: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        inside = [frame for frame in frames if "/keras_transformer/" in frame.filename]
        last = (inside or frames)[-1]
        where = f"{pathlib.Path(last.filename).stem}_{last.lineno}"
        path = self.directory / f"{type(error).__name__}_{where}.input"
        if not path.exists():
            path.write_bytes(data)
            text = "".join(traceback.format_exception(error))
            path.with_suffix(".txt").write_text(text, encoding="utf-8", errors="backslashreplace")
