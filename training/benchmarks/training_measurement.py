"""Training steps, timed in this process."""

import time

from training.benchmarks.bench_model import BENCH_MODELS
from training.benchmarks.rows import training_row
from training.benchmarks.stopwatch import Stopwatch
from training.benchmarks.workload import Workload

#: Ways to train: our compiled loop, and Keras' own.
WAYS = ("loop", "fit")
# The peers'.
_LEARNING_RATE = 1e-4


def measure_training(*, config, way, batches, repeats, threads, data=None, model=None):
    """Times training steps and returns the row of JSON of them.

    Each repeat trains on the same batches, whose mix of lengths is that of an epoch. Before, every
    shape is seen once.

    Args:
        config: the name of a `BenchModel`.
        way: "loop" or "fit".
        batches: how many a repeat has.
        repeats: how often they are timed.
        threads: how many threads TensorFlow has.
        data: the directory of the `Workload`.
        model: a `BenchModel` that stands in for the one of `config`.
    """
    model = model or BENCH_MODELS[config]
    _, timed = Workload(data).timing_batches(batches)
    network, run = make_runner(model, way, timed)
    watches, warm_up = time_repeats(run, repeats, threads)
    return training_row(
        f"keras_transformer {way}",
        config,
        model,
        timed,
        watches,
        warm_up,
        params=int(network.count_params()),
        **versions(),
    )


def make_runner(model, way, batches):
    """Returns a compiled network, and a function that makes one step with each of the batches."""
    import keras

    from training.benchmarks.array_batches import ArrayBatches

    given = ArrayBatches(batches)
    if way == "fit":
        network = _compile(model.make(), keras.optimizers.Adam(_LEARNING_RATE))
        return network, lambda: network.fit(given.dataset(epochs=1), shuffle=False, verbose=0)
    loop = make_loop(model, given)
    return loop.model, lambda: loop.run(len(given))


def make_loop(model, batches, max_length=64):
    """Returns a `TrainingLoop` over `Batches` for a `BenchModel`, as a recipe makes it."""
    from keras_transformer.trainer import TrainingLoop
    from keras_transformer.trainer.config import TrainingSection
    from keras_transformer.trainer.optimizers import make_optimizer

    section = TrainingSection(steps=1, schedule="constant", learning_rate=_LEARNING_RATE)
    optimizer = make_optimizer(section, model.width, section.steps)
    return TrainingLoop(_compile(model.make(max_length), optimizer), batches)


def time_repeats(run, repeats, threads):
    """Returns a `Stopwatch` of each repeat, and the seconds of the warm-up."""
    start = time.perf_counter()
    run()
    warm_up = time.perf_counter() - start
    watches = [Stopwatch(threads) for _ in range(repeats)]
    for watch in watches:
        with watch:
            run()
    return watches, warm_up


def versions():
    """What a row says about the software."""
    import tensorflow as tf

    from keras_transformer import __version__

    return {"version": __version__, "tensorflow": tf.__version__}


def _compile(network, optimizer):
    from keras_transformer.losses.cross_entropy import TokenCrossEntropy

    network.compile(optimizer, TokenCrossEntropy())
    # Or the first step of `fit` makes variables, and is traced a second time without that.
    network.optimizer.build(network.trainable_variables)
    return network
