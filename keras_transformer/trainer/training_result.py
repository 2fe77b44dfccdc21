"""TODO"""

import dataclasses
import json
import pathlib

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer._utils.files import atomic_file
from keras_transformer.inference.evaluation import Evaluation, PoorSentence

_PATHS = ("run_directory", "tensorboard", "export")


def store_result(path, result):
    """Writes a `TrainingResult` to a file of JSON, whole or not at all."""
    content = dataclasses.asdict(result)
    content |= {name: content[name] and str(content[name]) for name in _PATHS}
    with named_file_errors(path), atomic_file(path) as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def read_result(path):
    """Returns the `TrainingResult` that `store_result` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content |= {name: content[name] and pathlib.Path(content[name]) for name in _PATHS}
        content["samples"] = tuple(map(tuple, content["samples"]))
        content["tests"] = {
            name: Evaluation(
                **{**test, "worst": tuple(PoorSentence(**poor) for poor in test["worst"])}
            )
            for name, test in content["tests"].items()
        }
        return TrainingResult(**content)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: damaged ({error}). Remove it, and the same command writes it again."
        ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """A finished training.

    Attributes:
        name: of the recipe.
        run_directory: where checkpoints, logs and all else are.
        steps: updates of the weights, those before a stop included.
        epochs: passes over the corpus, with a fraction.
        seconds: the time all of it took, without the time between a stop and the next start.
        parameters: weights that are trained.
        validation: metrics of the final weights on the validation corpus, by name ("loss",
            "accuracy", "bleu", …); empty if there is none.
        best: the same metrics when they were best, or None.
        best_step: the update after which that was, or None.
        tests: the `inference.Evaluation` of each test set, by its name.
        samples: tuples of source, reference and hypothesis, to look at.
        export: the directory of the exported version, or None.
        tensorboard: the directory of TensorBoard's logs.
        stopped_by: "early stopping" if that ended it, or None if all updates were made.
        resumed_from: the update from which the last start went on, or None.
        traces: how often the training step was traced.
        tokens_per_second: target tokens of the last updates by the clock, without the first one,
            which is traced; None if that was the only one.
        planned_steps: the updates that the recipe asks for.
        planned_seconds: how long those would take at the pace of the last ones, without evaluations
            and checkpoints; None if it is not known.
        is_dry_run: whether this was only a try, of which nothing is kept.
    """

    name: str
    run_directory: pathlib.Path
    steps: int
    epochs: float
    seconds: float
    parameters: int
    tensorboard: pathlib.Path
    validation: dict = dataclasses.field(default_factory=dict)
    best: dict | None = None
    best_step: int | None = None
    tests: dict = dataclasses.field(default_factory=dict)
    samples: tuple = ()
    export: pathlib.Path | None = None
    stopped_by: str | None = None
    resumed_from: int | None = None
    traces: int = 0
    tokens_per_second: float | None = None
    planned_steps: int | None = None
    planned_seconds: float | None = None
    is_dry_run: bool = False
