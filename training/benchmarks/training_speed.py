"""Measurement of training steps, with the training loop and with `model.fit`."""

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from training.benchmarks.models import BENCH_MODELS, BenchModel
from training.benchmarks.timing import Row, time_repeats, training_row
from training.benchmarks.workload import Batch, Workload

if TYPE_CHECKING:
    import keras

    from keras_transformer.data import Batches
    from keras_transformer.trainer import TrainingLoop

#: Ways to train: the package's compiled loop, and `model.fit`.
WAYS = ("loop", "fit")
# The peers' scripts use the same.
_LEARNING_RATE = 1e-4


def measure_training(
    *,
    config: str,
    way: str,
    batches: int,
    repeats: int,
    threads: int,
    data: str | os.PathLike[str] | None = None,
    model: BenchModel | None = None,
) -> Row:
    """Measures training steps in this process and returns the row.

    Every repeat trains on the same batches, whose shapes are distributed as in an epoch. Every
    shape is seen once before the first repeat.

    Args:
        config: name of a `BenchModel`.
        way: "loop" or "fit".
        batches: number of batches of a repeat.
        repeats: number of repeats.
        threads: number of threads of TensorFlow.
        data: directory of the `Workload`. Default: random ids.
        model: dimensions to use in place of those of `config`.
    """
    model = model or BENCH_MODELS[config]
    _, timed = Workload(data).timing_batches(batches)
    network, run = make_runner(model, way, timed)
    warm_up = time_warm_up(run)
    return training_row(
        f"keras_transformer {way}",
        config,
        model,
        timed,
        time_repeats(run, repeats, threads),
        warm_up,
        params=int(network.count_params()),
        **versions(),
    )


def make_runner(
    model: BenchModel, way: str, batches: Sequence[Batch]
) -> tuple["keras.Model", Callable[[], object]]:
    """Returns a compiled model, and a function that runs a training step with each batch."""
    import keras

    # Imports TensorFlow, which the modules that start measurements must not do.
    from training.benchmarks.array_batches import ArrayBatches

    given = ArrayBatches(batches)
    if way == "fit":
        network = _compile(model.make(), keras.optimizers.Adam(_LEARNING_RATE))
        return network, lambda: network.fit(given.dataset(epochs=1), shuffle=False, verbose=0)
    loop = make_loop(model, given)
    return loop.model, lambda: loop.run(len(given))


def make_loop(model: BenchModel, batches: "Batches", max_length: int = 64) -> "TrainingLoop":
    """Returns a `TrainingLoop` with the optimizer that a recipe gets."""
    from keras_transformer.trainer import TrainingLoop
    from keras_transformer.trainer.building import make_optimizer
    from keras_transformer.trainer.config import TrainingSection

    section = TrainingSection(steps=1, schedule="constant", learning_rate=_LEARNING_RATE)
    optimizer = make_optimizer(section, model.hidden_dim, section.steps)
    return TrainingLoop(_compile(model.make(max_length), optimizer), batches)


def time_warm_up(run: Callable[[], object]) -> float:
    """Returns the seconds of the first call, which traces and compiles."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def versions() -> dict[str, Any]:
    """Returns the versions of the package and of TensorFlow, for rows."""
    import tensorflow as tf

    from keras_transformer import __version__

    return {"version": __version__, "tensorflow": tf.__version__}


def _compile(network: "keras.Model", optimizer: "keras.optimizers.Optimizer") -> "keras.Model":
    from keras_transformer.losses import TokenCrossEntropy

    network.compile(optimizer, TokenCrossEntropy())
    # Otherwise the first step of `fit` creates the variables, and a second trace follows.
    network.optimizer.build(network.trainable_variables)
    return network
