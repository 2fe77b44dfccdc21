"""What a training leaves: how far it went, how good it became, and where everything is."""

import dataclasses
import pathlib


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
