"""Shared parts of the scripts: threads, options, workload, and measurement.

Imported before any library, so that the library starts the right number of threads. The batches,
the clock and the rows are those of `training.benchmarks`.
"""

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: Number of threads that a library may use.
THREADS = int(os.environ.get("THREADS", "1"))
for _name in (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
):
    os.environ.setdefault(_name, str(THREADS))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

# Behind the packages of the library's own environment.
sys.path.append(str(pathlib.Path(__file__).parents[3]))

import numpy as np  # noqa: E402

from training.benchmarks.models import BENCH_MODELS, BenchModel  # noqa: E402
from training.benchmarks.timing import decoding_row, time_repeats, training_row  # noqa: E402
from training.benchmarks.training_speed import time_warm_up  # noqa: E402
from training.benchmarks.workload import (  # noqa: E402
    BUCKETS,
    END,
    PADDING,
    START,
    UNKNOWN,
    Batch,
    Workload,
    pad,
)

__all__ = [
    "BENCH_MODELS",
    "BUCKETS",
    "DATA",
    "END",
    "FORCED_LENGTH",
    "MAX_LENGTH",
    "PADDING",
    "REFERENCE",
    "START",
    "THREADS",
    "UNKNOWN",
    "VOCABULARY_SIZE",
    "Batch",
    "Workload",
    "decoding_options",
    "load_reference",
    "measure_decoding",
    "measure_training",
    "pad",
    "print_row",
    "sine_positions",
    "training_options",
    "until_end",
    "wanted_model",
]

_PEERS = os.environ.get("PEERS")
if _PEERS is None:
    sys.exit("The environment variable PEERS must name the directory that setup.sh has filled.")
DATA = pathlib.Path(_PEERS, "data")
REFERENCE = pathlib.Path(_PEERS, "reference")
VOCABULARY_SIZE = 8000

#: If it is not 0, every sentence gets exactly so many tokens, END or not.
FORCED_LENGTH = int(os.environ.get("FORCED_LENGTH", "0"))
MAX_LENGTH = FORCED_LENGTH or 48
_WARM_UP_BATCHES = 3


def training_options() -> argparse.ArgumentParser:
    """Returns the parser with the options of all training scripts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="tiny", choices=sorted(BENCH_MODELS))
    parser.add_argument("--batches", type=int, default=6, help="batches of a repeat")
    parser.add_argument("--repeats", type=int, default=3)
    return parser


def decoding_options() -> argparse.ArgumentParser:
    """Returns the parser with the options of all decoding scripts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="tiny", choices=sorted(BENCH_MODELS))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="maximum number of sentences")
    return parser


def wanted_model(options: argparse.Namespace) -> BenchModel:
    """Returns the dimensions of the model that the options name."""
    return BENCH_MODELS[options.config]


def load_reference(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Returns the weights of the reference model by their names in MarianMT."""
    with np.load(REFERENCE / f"{options.config}.npz") as weights:
        return dict(weights)


def measure_training(
    peer: str,
    options: argparse.Namespace,
    run: Callable[[Sequence[Batch]], object],
    **extra: Any,
) -> None:
    """Measures training steps and prints the row.

    Args:
        peer: name of the library.
        options: of `training_options`.
        run: runs an optimizer step with each batch, and waits for its end.
        **extra: further fields of the row.
    """
    warm, timed = Workload(DATA).timing_batches(options.batches)
    warm_up = time_warm_up(lambda: (run(warm), run(warm[:2])))
    watches = time_repeats(lambda: run(timed), options.repeats, THREADS)
    model = wanted_model(options)
    print_row(training_row(peer, options.config, model, timed, watches, warm_up, **extra))


def measure_decoding(
    peer: str,
    options: argparse.Namespace,
    translate: Callable[[list[np.ndarray]], list[Sequence[int]]],
    warm_up_all: bool = False,
    **extra: Any,
) -> None:
    """Measures decoding and prints the row.

    Args:
        peer: name of the library.
        options: of `decoding_options`.
        translate: function from the ids of a batch, END included, to the generated ids, without
            special ids.
        warm_up_all: whether every batch is decoded once before, as compilers need it.
        **extra: further fields of the row.
    """
    batches = Workload(DATA).test_batches(options.batch_size, options.sentences)
    stride = 1 if warm_up_all else max(1, len(batches) // _WARM_UP_BATCHES)
    warm_up = time_warm_up(lambda: [translate(rows) for rows in batches[::stride]])
    found: list[list[Sequence[int]]] = []

    def run() -> None:
        found[:] = [translate(rows) for rows in batches]

    watches = time_repeats(run, options.repeats, THREADS)
    if FORCED_LENGTH:
        extra["forced_len"] = FORCED_LENGTH
    print_row(
        decoding_row(
            peer,
            options.config,
            options.batch_size,
            options.beams,
            sum(map(len, batches)),
            sum(len(ids) for answers in found for ids in answers),
            watches,
            warm_up,
            **extra,
        )
    )


def print_row(row: dict[str, Any]) -> None:
    """Prints a row as a line of JSON."""
    print(json.dumps(row), flush=True)


def sine_positions(length: int, dim: int) -> np.ndarray:
    """Returns sinusoidal position encodings `[length, dim]`: all sines, then all cosines."""
    positions = np.arange(length)[:, None]
    rates = 1.0 / np.power(10000.0, 2 * np.arange(dim // 2) / dim)
    angles = positions * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def until_end(ids: Iterable[int]) -> list[int]:
    """Returns generated ids up to END, without padding and START; all of a forced length."""
    if FORCED_LENGTH:
        return list(ids)
    kept = []
    for token in map(int, ids):
        if token == END:
            break
        if token not in (PADDING, START):
            kept.append(token)
    return kept
