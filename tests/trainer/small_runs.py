"""Short trainings that tests interrupt, and comparison of everything that they leave."""

import json
import signal
from types import SimpleNamespace

import h5py

from keras_transformer.trainer import Recipe, train
from keras_transformer.trainer.building import TrainingParts
from keras_transformer.trainer.checkpoints import Checkpoints, assign_variables, training_variables
from keras_transformer.trainer.progress import TrainingReport
from tests import phrases
from tests.trainer.tensorboard.events import read_events

#: With dropout, two batches per step, AdamW and clipping; without pictures and translations.
RECIPE = {
    "name": "phrases",
    "task": "translation",
    "text": {"tokenizer": "bytes"},
    "model": {
        "size": "tiny",
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "num_heads": 2,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "max_length": 64,
        "dropout": 0.2,
    },
    "batches": {"tokens": 256, "max_length": 64, "max_buckets": 2, "accumulate": 2},
    "training": {
        "steps": 12,
        "optimizer": "adamw",
        "optimizer_options": {"weight_decay": 0.01},
        "clip_norm": 1.0,
        "schedule": "cosine",
        "learning_rate": 0.01,
        "warmup_steps": 2,
    },
    "evaluation": {"every": 4, "sentences": 0, "search": {"beams": 1, "max_length": 8}},
    "checkpoints": {"every": 4, "keep": 3, "average": 3},
    "tensorboard": {"every": 3, "attention": 0, "samples": 0, "projector": False},
    "export": {"enabled": False},
}


def write_corpora(directory):
    """Writes files of training and validation; returns the recipe's `data`."""
    pairs = phrases.make_pairs()
    corpora = {"train": pairs[10:130:2], "validation": pairs[:10]}
    for name, part in corpora.items():
        lines = (f"{source}\t{target}\n" for source, target in part)
        (directory / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return {name: str(directory / f"{name}.tsv") for name in corpora}


def make_values(data, **sections):
    """Returns `RECIPE` for some files, with keys of sections replaced, as a dictionary."""
    values = {**RECIPE, "data": data}
    for name, section in sections.items():
        values[name] = {**values[name], **section} if isinstance(section, dict) else section
    return values


def make_recipe(data, **sections):
    """Returns the recipe of `make_values`."""
    return Recipe.from_dictionary(make_values(data, **sections))


class Spy(TrainingReport):
    """Report that records messages, and calls functions at steps.

    Args:
        after: Functions without arguments, by the number of the step after which each is called.
        when_busy: Functions by the work that calls them, such as "Evaluating".
    """

    def __init__(self, after=None, when_busy=None):
        self.said, self.headlines, self.steps = [], [], []
        self.after, self.when_busy = after or {}, when_busy or {}

    def begin(self, headline, first_step, total_steps, epoch_steps):
        self.headlines.append(headline)
        self.epoch_steps = epoch_steps

    def update(self, step, logs):
        self.steps.append(step)
        self.after.get(step, lambda: None)()

    def busy(self, text):
        self.when_busy.get(text, lambda: None)()

    def say(self, text):
        self.said.append(text)


class SharedParts(TrainingParts):
    """Parts of trainings that reuse compiled models, and make one step per call.

    Tracing a model takes seconds, whereas a dozen steps take almost no time, so recipes with the
    same model share one. Each training gets this model with the initial values of all variables,
    including those of the optimizer and the random generators. (test_killed.py uses new processes,
    which share nothing.)
    """

    call_seconds = 0.0

    def __init__(self):
        self.stop_request = self.compiled = None

    def make_stop_request(self, answer):
        self.stop_request = super().make_stop_request(answer)
        return self.stop_request

    def set_seed(self, recipe):
        # Not for each training: after a new seed, TensorFlow traces again.
        pass

    def make_model(self, recipe, tokenizers):
        sections = recipe.to_dictionary()
        key = json.dumps([sections[name] for name in ("model", "training", "batches", "task")])
        if key not in _COMPILED:
            super().set_seed(recipe)
            _COMPILED[key] = SimpleNamespace(
                model=super().make_model(recipe, tokenizers), loop=None
            )
        self.compiled = _COMPILED[key]
        return self.compiled.model

    def make_training_loop(self, recipe, model, batches, total_steps):
        compiled = self.compiled
        if compiled.loop is None:
            compiled.loop = super().make_training_loop(recipe, model, batches, total_steps)
            compiled.validation = None
            variables = training_variables(model)
            compiled.fresh = {name: variable.numpy() for name, variable in variables.items()}
        assign_variables(training_variables(model), compiled.fresh, "a fresh model")
        compiled.loop.batches = batches
        compiled.loop.resume_from(0)
        return compiled.loop

    def make_validation_loop(self, model, batches):
        compiled = self.compiled
        compiled.validation = compiled.validation or super().make_validation_loop(model, batches)
        compiled.validation.batches = batches
        return compiled.validation


_COMPILED = {}


class Trainings:
    """Trainings in this process that can be interrupted at any step."""

    def __init__(self):
        self.parts = SharedParts()

    def train(self, recipe, run, *, stop_after=None, stop_when=None, after=None, **options):
        """Trains; returns the messages of the report.

        Args:
            recipe: The recipe.
            run: The run directory.
            stop_after: Step after which a stop is requested.
            stop_when: Work during which a signal comes, such as "Evaluating".
            after: See `Spy`.
            **options: Further arguments of `train`.
        """
        after = dict(after or {})
        if stop_after is not None:
            after[stop_after] = lambda: self.parts.stop_request.request(signal.SIGTERM)
        when_busy = {stop_when: lambda: signal.raise_signal(signal.SIGTERM)} if stop_when else {}
        self.spy = Spy(after, when_busy)
        train(recipe, run, report=self.spy, parts=self.parts, **options)
        return self.spy.said

    @property
    def model(self):
        """The model of the last training."""
        return self.parts.compiled.model

    @property
    def loop(self):
        """The training loop of the last training."""
        return self.parts.compiled.loop


def left_by(run):
    """Returns everything that a run leaves and that does not depend on the clock."""
    return {
        "checkpoints": {step: checkpoint_of(run, step) for step in steps_of(run)},
        "metrics": (run / "metrics.jsonl").read_text(),
        "events": events_of(run),
        "model": weights_of(run),
        "projector": {path.name: path.read_text() for path in run.glob("tensorboard/train/*.*sv")},
        "result": result_of(run),
    }


def require_same(run, expected):
    """Raises if `left_by(run)` differs from `expected`, the result of `left_by` for another run."""
    found = left_by(run)
    differences = [
        f"{name}: {_brief(found[name])} instead of {_brief(expected[name])}"
        for name in expected
        if found[name] != expected[name]
    ]
    if differences:
        raise AssertionError("; ".join(differences))


def _brief(value):
    text = str(value)
    return text if len(text) < 1000 else f"{len(text)} characters"


def steps_of(run):
    return Checkpoints(run / "checkpoints", keep=1, is_writer=False).steps()


def checkpoint_of(run, step):
    """Returns the bytes of a checkpoint's tensors by name, and its state without times."""
    checkpoint = Checkpoints(run / "checkpoints", keep=1, is_writer=False).read(step)
    tensors = {name: tensor.tobytes() for name, tensor in checkpoint.tensors().items()}
    state = {name: value for name, value in checkpoint.state.items() if name != "logs"}
    state["training"] = {**state["training"], "seconds": None}
    return tensors, state


def weights_of(run):
    """Returns the bytes of each final weight, in order: names of layers depend on the process."""
    weights = []
    with h5py.File(run / "model" / "model.weights.h5") as file:
        file.visititems(
            lambda _, item: (
                weights.append(item[()].tobytes()) if isinstance(item, h5py.Dataset) else None
            )
        )
    return weights


def events_of(run):
    """Returns the events of each directory in order, without those that depend on the clock."""
    return {
        part.name: [
            event._replace(content=b"")  # hyperparameters have the time of the start
            for event in read_events(part)
            if event.tag != "tokens_per_second"
        ]
        for part in sorted((run / "tensorboard").iterdir())
    }


def result_of(run):
    result = json.loads((run / "result.json").read_text())
    ignored = ("run_directory", "tensorboard", "export", "resumed_from", "traces")
    ignored += ("seconds", "planned_seconds", "tokens_per_second")  # of the clock
    return {name: value for name, value in result.items() if name not in ignored}
