"""Stopwatch, and measurements as rows of JSON.

The peers' scripts use this module as well. It imports no TensorFlow, because their environments
have another version of it, or none.
"""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from keras_transformer._utils.process import peak_memory
from training.benchmarks.models import BenchModel
from training.benchmarks.workload import count_tokens

#: One measurement, as it is printed in JSON.
Row = dict[str, Any]


class Stopwatch:
    """Context manager that measures the time of a block.

    With one thread, `seconds` is processor time of the whole process, kernel time included, because
    other programs on the machine disturb it less. With several threads it is wall-clock time.

    Args:
        threads: Integer. Number of threads that compute.

    Attributes:
        seconds: processor time or wall-clock time, see above.
        wall_seconds: wall-clock time.
        kernel_seconds: part of the processor time that was spent in the operating system.
    """

    seconds: float
    wall_seconds: float
    kernel_seconds: float

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def __enter__(self) -> Self:
        self._wall, self._processor = time.perf_counter(), time.process_time()
        self._kernel = _kernel_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_seconds = time.perf_counter() - self._wall
        processor = time.process_time() - self._processor
        self.kernel_seconds = _kernel_seconds() - self._kernel
        self.seconds = processor if self._threads == 1 else self.wall_seconds


def _kernel_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def time_repeats(run: Callable[[], object], repeats: int, threads: int) -> list[Stopwatch]:
    """Calls a function `repeats` times and returns the stopwatch of each call."""
    watches = [Stopwatch(threads) for _ in range(repeats)]
    for watch in watches:
        with watch:
            run()
    return watches


def training_row(
    peer: str,
    config: str,
    model: BenchModel,
    batches: Sequence[tuple[np.ndarray, ...]],
    watches: Sequence[Stopwatch],
    warm_up: float,
    **extra: Any,
) -> Row:
    """Returns the row of a training: target tokens per second, padding not counted.

    Args:
        peer: name of the library that was measured.
        config: name of the model.
        model: the model's dimensions.
        batches: the batches of one repeat, as tuples (source, target, labels).
        watches: the stopwatch of each repeat.
        warm_up: seconds before the first repeat.
        **extra: further fields of the row.
    """
    source_tokens, target_tokens = count_tokens(batches)
    seconds = [watch.seconds for watch in watches]
    median = statistics.median(seconds)
    wall = statistics.median(watch.wall_seconds for watch in watches)
    kernel = sum(watch.kernel_seconds for watch in watches)
    flops = model.training_flops(source_tokens, target_tokens)
    return {
        "peer": peer,
        "task": "train",
        "config": config,
        "batch": "4096tok",
        "metric": "tgt_tokens_per_s",
        "value": round(target_tokens / median, 3),
        "spread": [round(target_tokens / each, 1) for each in seconds],
        "ms_per_step": round(1e3 * median / len(batches), 1),
        "gflops": round(flops / median / 1e9, 2),
        "mfu": None,  # filled in by the command, which knows the machine's peak
        "warmup_s": round(warm_up, 1),
        "peak_rss_mb": peak_memory(),
        "reps": len(watches),
        "n_batches": len(batches),
        "sys_share": round(kernel / sum(seconds), 3),
        "wall_value": round(target_tokens / wall, 1),
        **extra,
    }


def decoding_row(
    peer: str,
    config: str,
    batch_size: int,
    beams: int,
    sentences: int,
    tokens: int,
    watches: Sequence[Stopwatch],
    warm_up: float,
    **extra: Any,
) -> Row:
    """Returns the row of decoding: sentences per second.

    Args:
        peer: name of the library that was measured.
        config: name of the model.
        batch_size: sentences per call.
        beams: beam size; 1 is greedy search.
        sentences: number of sentences of one repeat.
        tokens: number of generated tokens of one repeat.
        watches: the stopwatch of each repeat.
        warm_up: seconds before the first repeat.
        **extra: further fields of the row.
    """
    seconds = [watch.seconds for watch in watches]
    median = statistics.median(seconds)
    wall = statistics.median(watch.wall_seconds for watch in watches)
    return {
        "peer": peer,
        "task": decoding_task(beams),
        "config": config,
        "batch": batch_size,
        "metric": "sentences_per_s",
        "value": round(sentences / median, 3),
        "out_tokens_per_s": round(tokens / median, 1),
        "spread": [round(sentences / each, 2) for each in seconds],
        "wall_value": round(sentences / wall, 2),
        "mean_len": round(tokens / sentences, 2),
        "warmup_s": round(warm_up, 1),
        "peak_rss_mb": peak_memory(),
        "reps": len(watches),
        "n": sentences,
        **extra,
    }


def decoding_task(beams: int) -> str:
    """Returns the name of a decoding task in rows and tables.

    >>> decoding_task(1), decoding_task(4)
    ('infer_greedy', 'infer_beam4')
    """
    return "infer_greedy" if beams == 1 else f"infer_beam{beams}"
