"""Signals that are answered by a function, for a while."""

import contextlib
import ctypes
import os
import pathlib
import platform
import resource
import shutil
import signal
import sys

# By mallopt(3) of glibc.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
# Larger ones than any tensor of a training step are still given back to the system.
_LARGEST_KEPT = 2**28
_ALLOCATOR_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")


def available_cores():
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def prepare_process():
    """Does all of this module that can still be done; it is most before TensorFlow is imported."""
    keep_freed_memory()
    if "tensorflow" not in sys.modules:
        use_onednn()


def keep_freed_memory():
    """Has the process keep the memory that it frees, for the next time that it needs some.

    TensorFlow frees what a step has computed, and asks for as much again in the next. By default
    the memory goes back to the system in between, which then has to clear every page of it anew:
    on one core that was a fifth of the time of a training step. Nothing happens where there is no
    glibc, or where the user has given the allocator settings of their own.

    Returns:
        Whether anything was set.
    """
    if any(name.startswith(_ALLOCATOR_VARIABLES) for name in os.environ):
        return False
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        # One arena: those of threads give memory back whatever is set.
        settings = {
            _M_ARENA_MAX: 1,
            _M_MMAP_THRESHOLD: _LARGEST_KEPT,
            _M_TRIM_THRESHOLD: 2**31 - 1,
            _M_TOP_PAD: 2**26,
        }
        is_set = [mallopt(name, value) for name, value in settings.items()]
        return all(is_set)
    return False


def use_onednn():
    """Has TensorFlow use oneDNN's kernels where they are faster: on x86 with AVX2 and FMA.

    TensorFlow itself does so on newer Intel processors only. The environment variable
    TF_ENABLE_ONEDNN_OPTS, if it is set, says what the user wants.

    Returns:
        Whether it was set here.

    Raises:
        RuntimeError: if TensorFlow is there already, which reads the variable once.
    """
    if "tensorflow" in sys.modules:
        raise RuntimeError(
            "TensorFlow has been imported, and decides then whether it uses oneDNN. Set "
            "TF_ENABLE_ONEDNN_OPTS=1 in the environment instead."
        )
    if "TF_ENABLE_ONEDNN_OPTS" in os.environ or not {"avx2", "fma"} <= _processor_flags():
        return False
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    return True


def _processor_flags():
    """What the processor can do, in Linux' names; nothing where that is not known."""
    if platform.machine() != "x86_64":
        return set()
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def command_line():
    """How this package's own command is started.

    It is the one that runs, if one does. Otherwise it is beside the interpreter; but where packages
    are installed for a user, or for a whole system, commands are elsewhere on the path.
    """
    beside = pathlib.Path(sys.executable).with_name("keras-transformer")
    running = pathlib.Path(sys.argv[0])
    if running.name == beside.name and running.is_file():
        return [str(running.absolute())]
    return [str(beside) if beside.is_file() else shutil.which(beside.name) or str(beside)]


def peak_memory():
    """The most memory that this process has held so far, in MB as the peers count them."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


@contextlib.contextmanager
def answered_signals(numbers, answer):
    """Inside this block signals call a function; afterwards they do what they did before.

    A signal that is ignored, as SIGHUP under `nohup`, stays ignored.

    Args:
        numbers: of the signals.
        answer: a function of a signal's number.
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
