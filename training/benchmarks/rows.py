"""Measurements as rows of JSON, in the form of the peers' scripts."""

import statistics

from keras_transformer._utils.process import peak_memory
from training.benchmarks.workload import count_tokens


def training_row(peer, config, model, batches, watches, warm_up, **extra):
    """The row of a training: target tokens that are not padding, per second.

    Args:
        peer: who is measured.
        config: the name of the model.
        model: the `BenchModel`.
        batches: those of a repeat.
        watches: a `Stopwatch` of each repeat.
        warm_up: seconds before the first of them.
        **extra: more to tell.
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
        "mfu": None,  # whoever knows the machine's peak fills it in
        "warmup_s": round(warm_up, 1),
        "peak_rss_mb": peak_memory(),
        "reps": len(watches),
        "n_batches": len(batches),
        "sys_share": round(kernel / sum(seconds), 3),
        "wall_value": round(target_tokens / wall, 1),
        **extra,
    }


def decoding_row(peer, config, batch, beams, sentences, tokens, watches, warm_up, **extra):
    """The row of a decoding: sentences per second.

    Args:
        peer, config, watches, warm_up, extra: see `training_row`.
        batch: sentences at once.
        beams: 1 for greedy search.
        sentences: how many a repeat has.
        tokens: how many came out in a repeat.
    """
    seconds = [watch.seconds for watch in watches]
    median = statistics.median(seconds)
    wall = statistics.median(watch.wall_seconds for watch in watches)
    return {
        "peer": peer,
        "task": task_name(beams),
        "config": config,
        "batch": batch,
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


def task_name(beams):
    """What the peers call a search.

    >>> task_name(1), task_name(4)
    ('infer_greedy', 'infer_beam4')
    """
    return "infer_greedy" if beams == 1 else f"infer_beam{beams}"
