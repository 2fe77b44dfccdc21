"""The most memory that a block of code takes."""

import contextlib
import ctypes
import math
import pathlib

from keras_transformer._utils.process import peak_memory

# What resets the peak, by proc(5).
_CLEAR, _RESET_PEAK = pathlib.Path("/proc/self/clear_refs"), "5"


class MemoryPeak:
    """Measures a block, as a context manager.

    What has been freed before is given back to the system first, or it would be used again unseen;
    and the peak so far is forgotten. Where a system can do neither, only what goes beyond the
    peak so far is seen.

    Attributes:
        added_mb: how much more than before was held at the most, in MB.

    >>> import numpy as np
    >>> with MemoryPeak() as memory:
    ...     total = np.ones(2**24).sum()
    >>> 120 < memory.added_mb < 140
    True
    """

    def __enter__(self):
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        with contextlib.suppress(OSError):
            _CLEAR.write_text(_RESET_PEAK)
        self._before = _peak()
        return self

    def __exit__(self, *_):
        self.added_mb = round(_peak() - self._before, 1)


def _peak():
    """The most that this process has held since its peak was reset, in MB."""
    kilobytes = _read("/proc/self/status", "VmHWM")
    return peak_memory() if kilobytes is None else kilobytes / 1024


def available_memory():
    """MB that the system could give to new processes; infinite where that is not known."""
    kilobytes = _read("/proc/meminfo", "MemAvailable")
    return math.inf if kilobytes is None else kilobytes / 1024


def _read(path, field):
    """A number out of one of Linux' tables; None where there is no such thing."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return None
