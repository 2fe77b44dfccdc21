"""An invented result of a training."""

import pathlib

from keras_transformer.inference import Evaluation
from keras_transformer.trainer.training_result import TrainingResult

SAMPLES = (
    ("3. Mai 1979", "1979-05-03", "1979-05-03"),
    ("lundi 3 mars 2025", "2025-03-03", "2025-03-08"),
)


def make_result(**changes):
    values = {
        "name": "dates",
        "run_directory": pathlib.Path("runs/dates"),
        "steps": 12_000,
        "epochs": 47.62,
        "seconds": 151.2,
        "parameters": 1_234_567,
        "tensorboard": pathlib.Path("runs/dates/tensorboard"),
        "validation": {"loss": 0.01234, "accuracy": 0.998, "bleu": 99.1, "grumpiness": 2.0},
        "best": {"loss": 0.0111},
        "best_step": 9_000,
        "tests": {"unseen dates": make_evaluation()},
        "samples": SAMPLES,
        "export": pathlib.Path("saved_models/dates/1"),
        "traces": 8,
    }
    return TrainingResult(**{**values, **changes})


def make_evaluation():
    return Evaluation(
        sentences=1_000,
        metrics={"bleu": 98.7, "chrf": 99.05, "exact_match": 0.991},
        signatures={"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nc:6"},
        worst=(),
    )
