"""Trainings that take a second, stopped wherever a test likes, and all that is left of them."""

import json
import signal
from types import SimpleNamespace

import h5py

from keras_transformer.trainer import (
    Recipe,
    TrainingLoop,
    ValidationLoop,
    train,
    training,
    training_run,
)
from keras_transformer.trainer import preparation as recipe_parts
from keras_transformer.trainer.checkpoints import Checkpoints, assign_variables, training_variables
from keras_transformer.trainer.preparation import make_model
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.signals import StopRequest
from keras_transformer.trainer.training import _make_deterministic
from tests import phrases
from tests.trainer.tensorboard.events import read_events

#: Dropout, two batches an update, AdamW, clipping; nothing is drawn or translated.
RECIPE = {
    "name": "phrases",
    "task": "translation",
    "text": {"tokenizer": "bytes"},
    "model": {
        "preset": "tiny",
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
        "weight_decay": 0.01,
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

_COMPILED = {}


def write_corpora(directory):
    """Writes the files of training and validation; returns the recipe's `data`."""
    pairs = phrases.make_pairs()
    corpora = {"train": pairs[10:130:2], "validation": pairs[:10]}
    for name, part in corpora.items():
        lines = (f"{source}\t{target}\n" for source, target in part)
        (directory / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return {name: str(directory / f"{name}.tsv") for name in corpora}


def make_recipe(data, **sections):
    """The recipe over some files; a section that is given is put over its own."""
    values = {**RECIPE, "data": data}
    for name, section in sections.items():
        values[name] = {**values[name], **section} if isinstance(section, dict) else section
    return Recipe.from_dictionary(values)


class Spy(TrainingReport):
    """Keeps what is said, and does something after an update.

    Args:
        after: functions without arguments, by the number of the update after which each is called.
        when_busy: the same by what the training is busy with, such as "Evaluating".
    """

    def __init__(self, after=None, when_busy=None):
        self.said, self.headlines, self.updates = [], [], []
        self.after, self.when_busy = after or {}, when_busy or {}

    def begin(self, headline, first_step, total_steps, epoch_steps):
        self.headlines.append(headline)
        self.epoch_steps = epoch_steps

    def update(self, step, logs):
        self.updates.append(step)
        self.after.get(step, lambda: None)()

    def busy(self, text):
        self.when_busy.get(text, lambda: None)()

    def say(self, text):
        self.said.append(text)


class Trainings:
    """Trainings in this process that can be stopped at any update.

    To trace a model takes seconds, to make a dozen updates of it takes none: recipes that make the
    same of it share one, and each training gets it with the values that a fresh one has, the
    optimizer's and the random generators' included. (Fresh processes, in test_killed.py, have
    nothing to share.)
    """

    def __init__(self, monkeypatch):
        monkeypatch.setattr(training, "StopRequest", self._make_stop_request)
        monkeypatch.setattr(training, "_make_deterministic", lambda recipe: None)
        monkeypatch.setattr(training_run, "make_model", self._make_model)
        monkeypatch.setattr(recipe_parts, "TrainingLoop", self._make_training_loop)
        monkeypatch.setattr(training_run, "ValidationLoop", self._make_validation_loop)
        # Otherwise a stop comes after as many updates as the machine makes in a while.
        monkeypatch.setattr(training_run, "_CALL_SECONDS", 0.0)
        self._stop_request = self._compiled = None

    def train(self, recipe, run, *, stop_after=None, stop_when=None, after=None, **options):
        """Trains; returns what is said.

        Args:
            recipe, run, options: of `train`.
            stop_after: an update after which a stop is asked for.
            stop_when: what the training is busy with when a signal comes, such as "Evaluating".
            after: see `Spy`.
        """
        after = dict(after or {})
        if stop_after is not None:
            after[stop_after] = lambda: self._stop_request.request(signal.SIGTERM)
        when_busy = {stop_when: lambda: signal.raise_signal(signal.SIGTERM)} if stop_when else {}
        self.spy = Spy(after, when_busy)
        train(recipe, run, report=self.spy, **options)
        return self.spy.said

    def _make_stop_request(self, answer):
        self._stop_request = StopRequest(answer)
        return self._stop_request

    def _make_model(self, recipe, tokenizers):
        sections = recipe.to_dictionary()
        key = json.dumps([sections[name] for name in ("model", "training", "batches", "task")])
        if key not in _COMPILED:
            # Not each time: TensorFlow forgets the programs it has made when it is given a seed.
            _make_deterministic(recipe)
            _COMPILED[key] = SimpleNamespace(model=make_model(recipe, tokenizers), loop=None)
        else:
            # It has its optimizer, to which the compiled loop holds.
            _COMPILED[key].model.compile = lambda *_, **__: None
        self._compiled = _COMPILED[key]
        return self._compiled.model

    def _make_training_loop(self, model, batches, **options):
        compiled = self._compiled
        if compiled.loop is None:
            compiled.loop = TrainingLoop(model, batches, **options)
            compiled.validation = None
            variables = training_variables(model)
            compiled.fresh = {name: variable.numpy() for name, variable in variables.items()}
        assign_variables(training_variables(model), compiled.fresh, "a fresh model")
        compiled.loop.batches = batches
        compiled.loop.go_on_after(0)
        return compiled.loop

    def _make_validation_loop(self, model, batches):
        compiled = self._compiled
        compiled.validation = compiled.validation or ValidationLoop(model, batches)
        compiled.validation.batches = batches
        return compiled.validation


def left_by(run):
    """All that a run leaves and that does not depend on the clock."""
    return {
        "checkpoints": {update: checkpoint_of(run, update) for update in updates_of(run)},
        "metrics": (run / "metrics.jsonl").read_text(),
        "events": events_of(run),
        "model": weights_of(run),
        "projector": {path.name: path.read_text() for path in run.glob("tensorboard/train/*.*sv")},
        "result": result_of(run),
    }


def require_same(run, expected):
    """Raises if a run has left anything else than `left_by` gave of another one."""
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


def updates_of(run):
    return Checkpoints(run / "checkpoints", keep=1, is_writer=False).updates()


def checkpoint_of(run, update):
    """The bytes of a checkpoint's tensors by name, and what else it knows of the training."""
    checkpoint = Checkpoints(run / "checkpoints", keep=1, is_writer=False).read(update)
    tensors = {name: tensor.tobytes() for name, tensor in checkpoint.tensors().items()}
    state = {
        name: value for name, value in checkpoint.state.items() if name not in ("seconds", "logs")
    }
    return tensors, state


def weights_of(run):
    """The bytes of each final weight; layers are numbered by the process, so in their order."""
    weights = []
    with h5py.File(run / "model" / "model.weights.h5") as file:
        file.visititems(
            lambda _, item: (
                weights.append(item[()].tobytes()) if isinstance(item, h5py.Dataset) else None
            )
        )
    return weights


def events_of(run):
    """The values in the event files of each part, in their order, but for those of the clock."""
    return {
        part.name: [
            event._replace(content=b"")  # hyperparameters are there with the time of the start
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
