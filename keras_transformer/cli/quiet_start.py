"""TensorFlow without the log lines of its start."""

import contextlib
import importlib
import os
import sys


def import_tensorflow_quietly():
    """Imports TensorFlow and Keras without a word, unless the user has asked for their log.

    Most lines stop at `TF_CPP_MIN_LOG_LEVEL=3`; some are written to file descriptor 2 by C++ code
    before any setting is read, so it is pointed elsewhere during the import alone. Keras gets the
    backend that the package needs, whatever is set for other programs, and a GPU's memory is taken
    as it is needed.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # By default a process takes a GPU's whole memory, and a replay of its export would find none.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    is_quiet = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3"
    with silent_standard_error() if is_quiet else contextlib.nullcontext():
        importlib.import_module("keras")


@contextlib.contextmanager
def silent_standard_error():
    """What is written to file descriptor 2 inside, by Python or by C++, is lost."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
