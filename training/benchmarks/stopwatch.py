"""Seconds of the clock and of the processor."""

import resource
import time


class Stopwatch:
    """Measures a block, as a context manager.

    On one thread the processor's time counts, which other programs on the machine disturb less; it
    is that of all threads of this process, the kernel's included. On several threads the clock's
    counts.

    Args:
        threads: how many threads compute.

    Attributes:
        seconds: those that count.
        wall_seconds: by the clock.
        kernel_seconds: the part of the processor's time that the operating system took.
    """

    def __init__(self, threads):
        self._threads = threads

    def __enter__(self):
        self._wall, self._processor = time.perf_counter(), time.process_time()
        self._kernel = kernel_seconds()
        return self

    def __exit__(self, *_):
        self.wall_seconds = time.perf_counter() - self._wall
        processor = time.process_time() - self._processor
        self.kernel_seconds = kernel_seconds() - self._kernel
        self.seconds = processor if self._threads == 1 else self.wall_seconds


def kernel_seconds():
    """What the operating system has taken for this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime
