"""Peak speed of matrix products on this machine, which no training can exceed."""

import os
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training.benchmarks.processes import MeasurementError, Processes, run_peer_script
from training.benchmarks.timing import Row

#: Two squares, and the products in the models `tiny` and `base`.
SHAPES = (
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 128, 128),
    (4096, 128, 256),
    (4096, 128, 8000),
    (4096, 8000, 128),
    (4096, 512, 512),
    (4096, 512, 2048),
    (4096, 512, 8000),
)
_REPEATS = 3
_FLOPS_OF_A_REPEAT = 2e10

#: Function from two float32 arrays to a function that multiplies them and waits for the product.
MakeProduct = Callable[[Any, Any], Callable[[], object]]


def find_peak(
    processes: Processes,
    peers: pathlib.Path | None = None,
    warn: Callable[[str], object] = print,
) -> Row:
    """Returns the row of the fastest float32 product of any library.

    Tries NumPy, TensorFlow with and without oneDNN and, if there are peers, PyTorch, so that the
    utilization of all libraries refers to the same number.

    Args:
        processes: the `Processes` that measure, with the number of threads that will be used.
        peers: directory that the peers' setup.sh has filled. Default: none.
        warn: called with a line if a library fails.
    """
    rows = [
        processes.measure("peak", {"TF_ENABLE_ONEDNN_OPTS": setting}, threads=processes.threads)
        for setting in ("0", "1")
    ]
    if peers is not None:
        try:
            rows += run_peer_script(processes, peers, "pytorch", "matrix_products.py")
        except MeasurementError as error:
            warn(f"matrix products: PyTorch is left out, {error}")
    return max(rows, key=lambda row: row["value"]) | {"threads": processes.threads}


def measure_peak(
    threads: int,
    shapes: Sequence[Sequence[int]] = SHAPES,
    flops: float = _FLOPS_OF_A_REPEAT,
) -> Row:
    """Measures NumPy and TensorFlow in this process; returns the row of the fastest product.

    The environment variable TF_ENABLE_ONEDNN_OPTS decides whether TensorFlow uses oneDNN.

    Args:
        threads: number of threads that compute.
        shapes: rows, inner size and columns of the products that are tried.
        flops: minimum number of operations of a repeat.
    """
    import tensorflow as tf

    multiply = tf.function(tf.matmul, autograph=False)

    def by_tensorflow(left: Any, right: Any) -> Callable[[], object]:
        tensors = tf.constant(left), tf.constant(right)
        return lambda: multiply(*tensors).numpy().shape

    setting = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
    name = "tensorflow" if setting is None else f"tensorflow onednn={setting}"
    libraries = {"numpy": lambda left, right: lambda: left @ right, name: by_tensorflow}
    return fastest_product(libraries, threads, shapes, flops)


def fastest_product(
    libraries: Mapping[str, MakeProduct],
    threads: int,
    shapes: Sequence[Sequence[int]] = SHAPES,
    flops: float = _FLOPS_OF_A_REPEAT,
) -> Row:
    """Returns the row of the fastest float32 product.

    Args:
        libraries: for each name a function that prepares a product.
        threads: number of threads that compute.
        shapes: rows, inner size and columns of the products that are tried.
        flops: minimum number of operations of a repeat.
    """
    import numpy as np

    random = np.random.default_rng(0)
    best = (0.0, "", "")
    for rows, inner, columns in shapes:
        left = random.standard_normal((rows, inner), dtype=np.float32)
        right = random.standard_normal((inner, columns), dtype=np.float32)
        operations = 2.0 * rows * inner * columns
        for name, make in libraries.items():
            seconds = _time_product(make(left, right), threads, max(3, int(flops / operations)))
            best = max(best, (operations / seconds / 1e9, name, f"{rows}x{inner}x{columns}"))
    gflops, name, shape = best
    return {
        "peer": name,
        "task": "gemm",
        "config": shape,
        "batch": 1,
        "metric": "gflops",
        "value": round(gflops, 3),
    }


def _time_product(product: Callable[[], object], threads: int, count: int) -> float:
    """Returns the seconds of one product: the median of three repeats of `count` products."""
    now = time.process_time if threads == 1 else time.perf_counter
    product()
    seconds = []
    for _ in range(_REPEATS):
        start = now()
        for _ in range(count):
            product()
        seconds.append((now() - start) / count)
    return statistics.median(seconds)
