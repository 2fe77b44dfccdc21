"""Files of finished runs of a comparison, written without a training."""

import json

from keras_transformer.analysis.compare.runs import ComparedRun
from keras_transformer.export.run_manifest import RunManifest

TOKENS_PER_STEP = 100.0


def write_run(output, model, seed, *, exact_matches, loss=0.5, speed=1000.0, by_length=()):
    """Writes the files of a finished run.

    Args:
        output: Directory of the comparison.
        model: Name of the model.
        seed: Seed of the run.
        exact_matches: Share of exact matches by distance.
        loss: Validation loss.
        speed: Tokens per second.
        by_length: Groups of `quality_by_length`.
    """
    run = ComparedRun.of(output, model, seed)
    run.run_directory.mkdir(parents=True)
    tests = {
        f"distance_{distance}": {"sentences": 200, "bleu": 0.0, "exact_match": share}
        for distance, share in exact_matches.items()
    }
    measured = {
        "parameters": 123_456,
        "steps": 20,
        "validation": {"loss": loss, "exact_match": min(exact_matches.values(), default=0.0)},
        "tests": tests,
        "tokens_per_second": speed,
        "peak_memory_mb": 700,
        "by_length": list(by_length),
    }
    run.measured.write_text(json.dumps(measured))
    lines = [
        {"split": "train", "step": 5, "loss": 9.0},
        {"split": "validation", "step": 10, "loss": 2 * loss},
        {"split": "validation", "step": 20, "loss": loss},
    ]
    (run.run_directory / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    RunManifest.new(run.run_directory).add("metrics.jsonl")


def group(least, most, share):
    return {"least": least, "most": most, "sentences": 50, "exact_match": share, "bleu": 0.0}
