"""How fast this machine multiplies matrices, which no training can be faster than."""

import os
import statistics
import time

#: Of the peers' gemm.py: two squares, and the products in the models `tiny` and `base`.
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


def measure_peak(threads, shapes=SHAPES, flops=_FLOPS_OF_A_REPEAT):
    """Returns the row of JSON of the fastest float32 product, by NumPy or TensorFlow.

    Whether TensorFlow multiplies by oneDNN is set in the environment before it starts.

    Args:
        threads: how many threads compute.
        shapes: rows, inner size and columns of the products that are tried.
        flops: how much a repeat computes, at least.
    """
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    multiply = tf.function(tf.matmul, autograph=False)
    best = (0.0, None, None)
    for rows, inner, columns in shapes:
        left = random.standard_normal((rows, inner), dtype=np.float32)
        right = random.standard_normal((inner, columns), dtype=np.float32)
        tensors = tf.constant(left), tf.constant(right)
        products = {
            "numpy": lambda left=left, right=right: left @ right,
            _tensorflow_name(): lambda tensors=tensors: multiply(*tensors).numpy().shape,
        }
        operations = 2.0 * rows * inner * columns
        for name, product in products.items():
            seconds = _time_product(product, threads, max(3, int(flops / operations)))
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


def _tensorflow_name():
    setting = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
    return "tensorflow" if setting is None else f"tensorflow onednn={setting}"


def _time_product(product, threads, count):
    """Seconds of one product: the median of three repeats."""
    now = time.process_time if threads == 1 else time.perf_counter
    product()
    seconds = []
    for _ in range(_REPEATS):
        start = now()
        for _ in range(count):
            product()
        seconds.append((now() - start) / count)
    return statistics.median(seconds)
