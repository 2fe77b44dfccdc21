"""Checkpoints on disk: whole or not there, checked before they are believed."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil

import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer._utils.files import atomic_directory

WEIGHTS, SEEDS, OPTIMIZER = "weights", "seeds", "optimizer"


def training_variables(model):
    """Returns the variables of a compiled model that a run must keep, by name.

    They are the weights, the states of the dropouts' random generators (which no Keras file holds),
    and those of the optimizer: its counters and moments, the moving average of the weights, and
    the scale of the loss if it has one.
    """
    weights = model.weights
    known = {id(variable) for variable in [*weights, *model.metrics_variables]}
    seeds = [variable for variable in model.variables if id(variable) not in known]
    groups = {WEIGHTS: weights, SEEDS: seeds, OPTIMIZER: model.optimizer.variables}
    return {
        f"{group}/{number:04d}/{variable.name}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def assign_variables(variables, values, where):
    """Gives variables the values of the same names.

    Args:
        variables: by name.
        values: arrays by name.
        where: they come from, for messages.
    """
    missing = sorted(set(variables) ^ set(values))
    if missing:
        raise UserError(
            f"{where}: is of another model or optimizer; {missing[0]!r} and {len(missing) - 1} "
            "more are in one of them only. Start a new run in another directory."
        )
    for name, variable in variables.items():
        if tuple(variable.shape) != values[name].shape:
            raise UserError(
                f"{where}: is of another model; {name} has shape {values[name].shape}, not "
                f"{tuple(variable.shape)}. Start a new run in another directory."
            )
        variable.assign(values[name])


def mean_weights(checkpoints):
    """Returns the mean of the weights of several `Checkpoint`s, arrays by name.

    Vaswani et al. 2017, "Attention Is All You Need", §6.1, average the last 5 or 20.
    """
    totals = {}
    for checkpoint in checkpoints:
        for name, value in checkpoint.tensors(f"{WEIGHTS}/").items():
            totals[name] = totals.get(name, 0.0) + value.astype(np.float64)
    return {name: (total / len(checkpoints)).astype(np.float32) for name, total in totals.items()}


@contextlib.contextmanager
def moving_averages(model):
    """Inside, the model has the moving average of its weights that its optimizer has kept."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    averages = [variable.numpy() for variable in optimizer._model_variables_moving_average]
    trained = [variable.numpy() for variable in model.trainable_variables]
    try:
        _assign(model.trainable_variables, averages)
        yield
    finally:
        _assign(model.trainable_variables, trained)


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


FORMAT = 1
DESCRIPTION, TENSORS = "checkpoint.json", "tensors"


class DamagedCheckpointError(ValueError):
    """A checkpoint that is not as it was written."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose every byte is as it was written.

    Attributes:
        path: its directory.
        update: after which it was made.
        state: what was stored beside the tensors, a dictionary for JSON.
    """

    path: pathlib.Path
    update: int
    state: dict

    def tensors(self, prefix=""):
        """Returns the NumPy arrays whose names begin with `prefix`, by name."""
        reader = tf.train.load_checkpoint(str(self.path / TENSORS))
        names = sorted(name for name in reader.get_variable_to_shape_map() if name)
        return {name: reader.get_tensor(name) for name in names if name.startswith(prefix)}


class Checkpoints:
    """The checkpoints of a run, each a directory `update_00001000`.

    A checkpoint is written beside its place and appears by a rename when every byte is on the disk,
    so that nothing, neither a power cut nor a full disk, leaves half of one or costs an older one.
    Every file has its sha256 in `checkpoint.json`. The tensors are in TensorFlow's own format:
    `tf.train.load_checkpoint(directory + "/tensors")` reads them.

    Regular checkpoints are those that every run makes, however often it was stopped: the last
    `keep` of them stay. The others (of a stop, of the best weights) go when they are not needed.

    Args:
        directory: where they are. It is made if it is not there.
        keep: how many regular ones to keep.
        is_writer: whether this process may write there; of several workers, one may.
    """

    def __init__(self, directory, keep, is_writer=True):
        self.directory = pathlib.Path(directory)
        self.keep = keep
        self.is_writer = is_writer
        if is_writer:
            self.directory.mkdir(parents=True, exist_ok=True)
            for leftover in self.directory.glob(".*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)

    def updates(self):
        """Returns the updates of which there is a checkpoint, the latest first."""
        found = (re.fullmatch(r"update_(\d+)", path.name) for path in self.directory.glob("*"))
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def save(self, update, tensors, state, is_regular=True):
        """Writes a checkpoint; then older ones that are no longer needed are removed.

        Args:
            update: after which it is made. If there is one of it already, that one stays.
            tensors: by name.
            state: a dictionary for JSON.
            is_regular: see the class.
        """
        path = self.path(update)
        if path.exists():
            if is_regular:
                self._prune(update)
            return
        with named_file_errors(path), atomic_directory(path) as temporary:
            tf.raw_ops.SaveV2(
                prefix=str(temporary / TENSORS),
                tensor_names=list(tensors),
                shape_and_slices=[""] * len(tensors),
                tensors=[tf.convert_to_tensor(tensor) for tensor in tensors.values()],
            )
            content = {
                "format": FORMAT,
                "update": update,
                "is_regular": is_regular,
                "state": state,
                "files": {entry.name: _fingerprint(entry) for entry in temporary.iterdir()},
            }
            text = json.dumps({"content": content, "sha256": _digest(content)}, indent=1)
            (temporary / DESCRIPTION).write_text(text, encoding="utf-8")
        self._prune(update)

    def path(self, update):
        """The directory of an update's checkpoint."""
        return self.directory / f"update_{update:08d}"

    def newest(self, say=print):
        """Returns the latest sound `Checkpoint`, or None if there is none.

        Those that are damaged are set aside, as `update_….damaged`, and told about.

        Args:
            say: a function of a text, for what a person should know.
        """
        updates = self.updates()
        for number, update in enumerate(updates, start=1):
            try:
                return self.read(update)
            except DamagedCheckpointError as error:
                is_last = number == len(updates)
                before = "the start, as there is none" if is_last else "the checkpoint"
                say(f"{error} Going back to {before} before it.")
                if self.is_writer:
                    aside = f"{self.path(update).name}.{secrets.token_hex(4)}.damaged"
                    self.path(update).rename(self.directory / aside)
        return None

    def read(self, update):
        """Returns the `Checkpoint` of an update.

        Raises:
            DamagedCheckpointError: if a byte of it is not as it was written.
        """
        path = self.path(update)
        content = _read_description(path)
        for name, expected in content["files"].items():
            if not (path / name).is_file():
                raise DamagedCheckpointError(f"{path}: damaged, {name} is missing.")
            if _fingerprint(path / name) != expected:
                raise DamagedCheckpointError(f"{path}: damaged, {name} is not as it was written.")
        return Checkpoint(path, content["update"], content["state"])

    def latest_regular(self, count):
        """Returns the updates of the last `count` regular checkpoints, the latest first."""
        return [update for update in self.updates() if self._is_regular(update)][:count]

    def _is_regular(self, update):
        try:
            return _read_description(self.path(update))["is_regular"]
        except DamagedCheckpointError:
            return False

    def _prune(self, newest):
        """Removes what is no longer needed now that there is a checkpoint of `newest`."""
        best = _read_description(self.path(newest))["state"].get("best_update")
        needed = {newest, best, *self.latest_regular(self.keep)}
        for update in self.updates():
            if update < newest and update not in needed:
                # Under another name first: half of one must not pass for a checkpoint.
                doomed = self.directory / f".update_{update:08d}.{secrets.token_hex(4)}"
                os.rename(self.path(update), doomed)
                shutil.rmtree(doomed, ignore_errors=True)


def _read_description(path):
    try:
        description = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        content, digest = description["content"], description["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpointError(f"{path}: damaged, {DESCRIPTION} is not readable.") from error
    if digest != _digest(content):
        raise DamagedCheckpointError(f"{path}: damaged, {DESCRIPTION} is not as it was written.")
    if content["format"] != FORMAT:
        raise UserError(
            f"{path}: has format {content['format']}, expected {FORMAT}. Use the version of "
            "keras_transformer that made it, or start a new run in another directory."
        )
    return content


def _digest(content):
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _fingerprint(path):
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
