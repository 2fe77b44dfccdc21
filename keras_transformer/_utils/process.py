"""Settings and properties of the process: cores, memory allocator, oneDNN, signals, commands."""

import contextlib
import ctypes
import os
import pathlib
import platform
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator

# Parameters of mallopt(3) in glibc.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
# Larger blocks than any tensor of a training step are still returned to the system.
_LARGEST_KEPT = 2**28
_ALLOCATOR_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")


def available_cores() -> list[int]:
    """Returns the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def prepare_process() -> None:
    """Applies `keep_freed_memory`, and `use_onednn` if TensorFlow has not been imported yet."""
    keep_freed_memory()
    if "tensorflow" not in sys.modules:
        use_onednn()


def keep_freed_memory() -> bool:
    """Makes the allocator keep freed memory for the next allocation; returns whether it does.

    TensorFlow frees the results of a step and allocates as much again in the next. By default the
    system gets the memory in between and clears every page, on one core a fifth of a training step.
    Nothing happens without glibc, or if the environment has settings for the allocator.
    """
    if any(name.startswith(_ALLOCATOR_VARIABLES) for name in os.environ):
        return False
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        # One arena: the arenas of threads return memory regardless of these settings.
        settings = {
            _M_ARENA_MAX: 1,
            _M_MMAP_THRESHOLD: _LARGEST_KEPT,
            _M_TRIM_THRESHOLD: 2**31 - 1,
            _M_TOP_PAD: 2**26,
        }
        is_set = [mallopt(name, value) for name, value in settings.items()]
        return all(is_set)
    return False


def use_onednn() -> bool:
    """Makes TensorFlow use oneDNN on x86 processors with AVX2 and FMA; returns whether it does.

    On these processors oneDNN is faster, but by default TensorFlow uses it on newer ones only. The
    environment variable TF_ENABLE_ONEDNN_OPTS takes precedence. TensorFlow reads it once, so an
    earlier import of TensorFlow is a `RuntimeError`.
    """
    if "tensorflow" in sys.modules:
        fix = "Set TF_ENABLE_ONEDNN_OPTS=1 in the environment instead."
        raise RuntimeError(f"oneDNN cannot be enabled after TensorFlow has been imported. {fix}")
    if "TF_ENABLE_ONEDNN_OPTS" in os.environ or not {"avx2", "fma"} <= _processor_flags():
        return False
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    return True


def _processor_flags() -> set[str]:
    """Returns the processor's features by Linux' names; empty if they are not known."""
    if platform.machine() != "x86_64":
        return set()
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def command_line() -> list[str]:
    """Returns the command that starts `keras-transformer`.

    The result is the running command if this process is one, otherwise the one in the directory of
    the interpreter, or the one on the PATH.
    """
    beside = pathlib.Path(sys.executable).with_name("keras-transformer")
    running = pathlib.Path(sys.argv[0])
    if running.name == beside.name and running.is_file():
        return [str(running.absolute())]
    return [str(beside) if beside.is_file() else shutil.which(beside.name) or str(beside)]


def peak_memory() -> int:
    """Returns the largest resident memory of this process so far, in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


@contextlib.contextmanager
def answered_signals(numbers: Iterable[int], answer: Callable[[int], object]) -> Iterator[None]:
    """Calls `answer` with the number of each of these signals that comes inside the block.

    A signal that is ignored, such as SIGHUP under `nohup`, stays ignored.
    """
    old = {
        number: signal.signal(number, lambda number, _: answer(number))
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
