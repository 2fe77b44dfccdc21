"""Points of the curves that tell how cost grows, each measured in this process."""

import dataclasses
import os
import statistics
import tempfile
import time

import numpy as np

from keras_transformer._utils.process import peak_memory
from training.benchmarks.bench_model import BENCH_MODELS
from training.benchmarks.stopwatch import Stopwatch
from training.benchmarks.training_measurement import make_loop, make_runner, time_repeats
from training.benchmarks.workload import Workload, count_tokens

# Steps in a repeat: several, so that what happens once in a while counts.
_STEPS = 3
# Tokens of a sentence that is short.
_SHORT = 8
# Of the vocabulary with which corpora are tokenized, and the lines that it is learned from.
_VOCABULARY, _LEARNED_LINES = 8000, 20_000


def measure_step(*, rows, length, repeats, threads, config="tiny", **changes):
    """Returns the row of JSON of a training step on full batches: milliseconds, and memory.

    Memory is what such a batch adds to that of a training on one short sentence.

    Args:
        rows, length: of the batches, source and target alike, without any padding.
        repeats: how often three steps are timed.
        threads: how many threads TensorFlow has.
        config: the name of a `BenchModel`.
        **changes: fields of it that are others here, such as `layers`.
    """
    from training.benchmarks.array_batches import ArrayBatches

    model = dataclasses.replace(BENCH_MODELS[config], **changes)
    random = np.random.default_rng(0)
    short, full = (
        tuple(random.integers(4, model.vocabulary_size, (3, *shape), dtype=np.int32))
        for shape in ((1, _SHORT), (rows, length))
    )
    batches = ArrayBatches([short, *[full] * _STEPS * (1 + repeats)])
    loop = make_loop(model, batches, max_length=max(length, _SHORT))
    loop.run(1)
    memory_before = peak_memory()
    watches, _ = time_repeats(lambda: loop.run(_STEPS), repeats, threads)
    return {
        **_row(config, f"{rows}x{length}", watches, 1e3 / _STEPS, "ms_per_step"),
        "added_mb": peak_memory() - memory_before,
    }


def measure_preparation(*, lines, repeats, threads):
    """Returns the row of JSON of making batches of a corpus: seconds, and memory.

    A file with pairs of sentences is tokenized, kept on disk, and the shapes of its batches are
    chosen and filled.

    Args:
        lines: how many pairs.
        repeats: how often.
        threads: how many threads there are.
    """
    from keras_transformer.data import PairBatches, TsvCorpus, choose_buckets, tokenize_corpus
    from keras_transformer.text import learn_tokenizer

    texts, _ = Workload().texts()
    tokenizer = learn_tokenizer(
        "sentencepiece", texts[:_LEARNED_LINES], _VOCABULARY, model="bpe", progress=lambda *_: None
    )
    watches = []
    with tempfile.TemporaryDirectory(prefix="keras_transformer_") as directory:
        path = os.path.join(directory, "pairs.tsv")
        with open(path, "w", encoding="utf-8") as file:
            for number in range(lines):
                # The number makes a pair new when those that were drawn are used up.
                source, target = (texts[(2 * number + side) % len(texts)] for side in (0, 1))
                file.write(f"{source} {number}\t{target} {number}\n")
        memory_before = peak_memory()
        for repeat in range(repeats):
            watch = Stopwatch(threads)
            with watch:
                cache_directory = os.path.join(directory, str(repeat))
                cache = tokenize_corpus(TsvCorpus(path), tokenizer, cache_directory)
                PairBatches(cache, choose_buckets(cache), seed=1).batch(epoch=0, number=0)
            watches.append(watch)
    return {
        **_row("data", lines, watches, 1.0, "seconds"),
        "added_mb": peak_memory() - memory_before,
    }


def measure_worker(*, config, batches, repeats, data=None):
    """Trains as one of the workers that TF_CONFIG names; returns the row of all, or None.

    Target tokens per second of the clock, of all workers together; the first of them tells.

    Args:
        config: the name of a `BenchModel`.
        batches: how many a repeat has.
        repeats: how often they are timed.
        data: the directory of the `Workload`.
    """
    from keras_transformer.trainer.distribution import Distribution

    _, timed = Workload(data).timing_batches(batches)
    distribution = Distribution("auto")
    with distribution.scope():
        _, run = make_runner(BENCH_MODELS[config], "loop", timed)
        run()
        rates = []
        _, tokens = count_tokens(timed)
        for _ in range(repeats):
            start = time.perf_counter()
            run()
            rates.append(tokens / (time.perf_counter() - start))
    if not distribution.is_chief:
        return None
    return {
        "peer": "keras_transformer loop",
        "config": config,
        "batch": "4096tok",
        "metric": "tgt_tokens_per_s",
        "value": round(statistics.median(rates), 3),
        "spread": [round(rate, 1) for rate in rates],
        "peak_rss_mb": peak_memory(),
        "reps": repeats,
    }


def _row(config, batch, watches, factor, metric):
    values = [watch.seconds * factor for watch in watches]
    return {
        "peer": "keras_transformer loop" if metric == "ms_per_step" else "keras_transformer data",
        "config": config,
        "batch": batch,
        "metric": metric,
        "value": round(statistics.median(values), 3),
        "spread": [round(value, 3) for value in values],
        "peak_rss_mb": peak_memory(),
        "reps": len(watches),
    }
