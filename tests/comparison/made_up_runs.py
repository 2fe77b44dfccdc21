"""Runs of a comparison that nobody has trained."""

import json

from keras_transformer.analysis.compare.run_place import RunPlace

TOKENS_PER_UPDATE = 100.0


def write_run(output, model, seed, *, exact_matches, loss=0.5, speed=1000.0, by_length=()):
    """Writes what a finished run leaves.

    Args:
        output: the directory of the comparison.
        model, seed: whose run it is.
        exact_matches: their share at each distance.
        loss, speed: of the run.
        by_length: groups of `quality_by_length`.
    """
    place = RunPlace.of(output, model, seed)
    place.run.mkdir(parents=True)
    tests = {
        f"distance_{distance}": {"sentences": 200, "bleu": 0.0, "exact_match": share}
        for distance, share in exact_matches.items()
    }
    measured = {
        "parameters": 123_456,
        "updates": 20,
        "validation": {"loss": loss, "exact_match": min(exact_matches.values(), default=0.0)},
        "tests": tests,
        "tokens_per_second": speed,
        "peak_memory_mb": 700,
        "by_length": list(by_length),
    }
    place.measured.write_text(json.dumps(measured))
    lines = [
        {"split": "train", "update": 5, "loss": 9.0},
        {"split": "validation", "update": 10, "loss": 2 * loss},
        {"split": "validation", "update": 20, "loss": loss},
    ]
    (place.run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def group(least, most, share):
    return {"least": least, "most": most, "sentences": 50, "exact_match": share, "bleu": 0.0}
