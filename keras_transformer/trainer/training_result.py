"""The result of a training, and its file."""

import dataclasses
import json
import pathlib
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.inference.evaluation import Evaluation, PoorSentence

_PATHS = ("run_directory", "tensorboard", "export")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The result of a finished training.

    Attributes:
        name: Name of the recipe.
        run_directory: Directory of the run.
        steps: Number of training steps, including those before an interruption.
        epochs: Number of passes over the corpus, with a fraction.
        seconds: Time of the training, without the time between interruption and resumption.
        parameters: Number of weights of the model.
        tensorboard: Directory of TensorBoard's logs.
        validation: Metrics of the final weights on the validation corpus by name, such as "bleu".
        best: The same metrics of the best evaluation, or None.
        best_step: Step of the best evaluation, or None.
        tests: The `inference.Evaluation` of each test set by name.
        samples: Tuples of source, reference and hypothesis to show.
        export: Directory of the exported version, or None.
        stopped_by: "early stopping" or "a callback" if one of them ended training, else None.
        resumed_from: Step from which the last start resumed, or None.
        traces: Number of times that the training step was traced.
        tokens_per_second: Target tokens per second in the last call of the loop, if it is known.
        planned_steps: Number of steps of the recipe.
        planned_seconds: Time of these steps at the speed of the last ones, if it is known.
        is_dry_run: Whether this was a dry run, of which nothing is kept.
    """

    name: str
    run_directory: pathlib.Path
    steps: int
    epochs: float
    seconds: float
    parameters: int
    tensorboard: pathlib.Path
    validation: dict[str, float] = dataclasses.field(default_factory=dict)
    best: dict[str, float] | None = None
    best_step: int | None = None
    tests: dict[str, Evaluation] = dataclasses.field(default_factory=dict)
    samples: tuple[tuple[str, str, str], ...] = ()
    export: pathlib.Path | None = None
    stopped_by: str | None = None
    resumed_from: int | None = None
    traces: int = 0
    tokens_per_second: float | None = None
    planned_steps: int | None = None
    planned_seconds: float | None = None
    is_dry_run: bool = False


def result_as_json(result: TrainingResult) -> str:
    """Returns a `TrainingResult` as JSON, which `read_result` reads."""
    content = dataclasses.asdict(result)
    content |= {name: content[name] and str(content[name]) for name in _PATHS}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def read_result(path: pathlib.Path) -> TrainingResult:
    """Returns the `TrainingResult` in a file with the text of `result_as_json`."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        content |= {name: content[name] and pathlib.Path(content[name]) for name in _PATHS}
        content["samples"] = tuple(map(tuple, content["samples"]))
        for name, test in content["tests"].items():
            test["worst"] = tuple(PoorSentence(**sentence) for sentence in test["worst"])
            content["tests"][name] = Evaluation(**test)
        return TrainingResult(**content)
    except (ValueError, TypeError, KeyError) as error:
        fix = f"Copy the run again, or train it again with another --run than {path.parent}."
        raise UserError(f"damaged ({error}).", where=path, fix=fix) from error
