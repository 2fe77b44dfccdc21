"""Checkpoints on disk, written atomically and verified before loading."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer._utils.files import atomic_directory
from keras_transformer._utils.types import Path

WEIGHTS, SEEDS, OPTIMIZER = "weights", "seeds", "optimizer"


def training_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the variables of a compiled model that a checkpoint must keep, by name.

    These are the weights, the states of dropout's random generators, and the variables of the
    optimizer.
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


def assign_variables(
    variables: Mapping[str, keras.Variable], values: Mapping[str, np.ndarray], source: Path
) -> None:
    """Assigns to each variable the value of the same name; `source` is for error messages."""

    def refuse(difference: str) -> NoReturn:
        problem = f"was made with another model or optimizer: {difference}."
        raise UserError(problem, where=source, fix="Start a new run in another directory.")

    if differing := sorted(set(variables) ^ set(values)):
        refuse(f"{len(differing)} variables are in only one of them, such as {differing[0]!r}")
    for name, variable in variables.items():
        shape, expected = values[name].shape, tuple(variable.shape)
        if shape != expected:
            refuse(f"{name} has shape {shape}, expected {expected}")
        variable.assign(values[name])


def mean_weights(checkpoints: Sequence["Checkpoint"]) -> dict[str, np.ndarray]:
    """Returns the mean of the weights of several checkpoints (Vaswani et al. 2017, §6.1)."""
    totals: dict[str, Any] = {}
    for checkpoint in checkpoints:
        for name, value in checkpoint.tensors(f"{WEIGHTS}/").items():
            totals[name] = totals.get(name, 0.0) + value.astype(np.float64)
    return {name: (total / len(checkpoints)).astype(np.float32) for name, total in totals.items()}


@contextlib.contextmanager
def moving_averages(model: keras.Model) -> Iterator[None]:
    """Context in which the model's weights are the moving averages that its optimizer keeps."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    # Keras has no public access to the averages except for overwriting the weights with them.
    averages = [variable.numpy() for variable in optimizer._model_variables_moving_average]
    trained = [variable.numpy() for variable in model.trainable_variables]
    try:
        for variable, value in zip(model.trainable_variables, averages, strict=True):
            variable.assign(value)
        yield
    finally:
        for variable, value in zip(model.trainable_variables, trained, strict=True):
            variable.assign(value)


FORMAT = 1
DESCRIPTION, TENSORS = "checkpoint.json", "tensors"
_NAME = re.compile(r"step_(\d+)")


class DamagedCheckpointError(ValueError):
    """Raised for a checkpoint whose files have changed since they were written."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a step whose files have been verified; `state` is stored with the tensors."""

    path: pathlib.Path
    step: int
    state: dict[str, Any]

    def tensors(self, prefix: str = "") -> dict[str, np.ndarray]:
        """Returns the arrays whose names begin with `prefix`, by name."""
        reader = tf.train.load_checkpoint(str(self.path / TENSORS))
        names = sorted(name for name in reader.get_variable_to_shape_map() if name)
        return {name: reader.get_tensor(name) for name in names if name.startswith(prefix)}


class Checkpoints:
    """The checkpoints of a run, each in a directory such as `step_00001000`.

    A checkpoint is written to a temporary directory, which is renamed when every byte is on the
    disk: a power failure or a full disk does not change older checkpoints. `checkpoint.json` has
    the SHA-256 of every file; `tf.train.load_checkpoint(directory + "/tensors")` reads the tensors.

    Regular checkpoints are those that every run of a recipe makes, interrupted or not. Others, of
    an interruption or of the best weights, are removed when they are no longer needed.

    Args:
        directory: Path of the directory, which is created if it does not exist.
        keep: Number of regular checkpoints to keep, the latest ones.
        is_writer: Whether this process may write; of several workers, one may. Default True.
    """

    def __init__(self, directory: Path, keep: int, is_writer: bool = True) -> None:
        self.directory: pathlib.Path = pathlib.Path(directory)
        self.keep = keep
        self.is_writer = is_writer
        if is_writer:
            self.directory.mkdir(parents=True, exist_ok=True)
            for leftover in self.directory.glob(".*"):  # of a killed process
                shutil.rmtree(leftover, ignore_errors=True)

    def steps(self) -> list[int]:
        """Returns the steps that have a checkpoint, the latest first."""
        found = (_NAME.fullmatch(path.name) for path in self.directory.glob("*"))
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def save(
        self,
        step: int,
        tensors: Mapping[str, Any],
        state: Mapping[str, Any],
        is_regular: bool = True,
    ) -> None:
        """Writes a checkpoint and removes older ones that are no longer needed.

        Args:
            step: Training step after which the checkpoint is made. An existing checkpoint of this
                step is kept.
            tensors: Tensors by name.
            state: Dictionary for JSON.
            is_regular: Whether every run of the recipe makes this checkpoint. Default True.
        """
        path = self.path(step)
        if path.exists():
            if is_regular:
                self._prune(step)
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
                "step": step,
                "is_regular": is_regular,
                "state": state,
                "files": {entry.name: _fingerprint(entry) for entry in temporary.iterdir()},
            }
            text = json.dumps({"content": content, "sha256": _digest(content)}, indent=1)
            (temporary / DESCRIPTION).write_text(text, encoding="utf-8")
        self._prune(step)

    def path(self, step: int) -> pathlib.Path:
        """Returns the directory of a step's checkpoint."""
        return self.directory / f"step_{step:08d}"

    def newest(self, say: Callable[[str], None] = print) -> Checkpoint | None:
        """Returns the latest undamaged checkpoint, if any; renames and reports damaged ones."""
        steps = self.steps()
        for step in steps:
            try:
                return self.read(step)
            except DamagedCheckpointError as error:
                instead = "starting over" if step == steps[-1] else "using the previous checkpoint"
                say(f"{error} It is ignored; {instead}.")
                if self.is_writer:
                    aside = f"{self.path(step).name}.{secrets.token_hex(4)}.damaged"
                    self.path(step).rename(self.directory / aside)
        return None

    def read(self, step: int) -> Checkpoint:
        """Returns the verified checkpoint of a step, or raises `DamagedCheckpointError`."""
        path = self.path(step)
        content = _read_description(path)
        for name, expected in content["files"].items():
            if not (path / name).is_file():
                raise DamagedCheckpointError(f"{path}: damaged, {name} is missing.")
            if _fingerprint(path / name) != expected:
                raise DamagedCheckpointError(f"{path}: damaged, {name} is not as it was written.")
        return Checkpoint(path, content["step"], content["state"])

    def latest_regular(self, count: int) -> list[int]:
        """Returns the steps of the last `count` regular checkpoints, the latest first."""
        regular = []
        for step in self.steps():
            with contextlib.suppress(DamagedCheckpointError):
                if _read_description(self.path(step))["is_regular"]:
                    regular.append(step)
        return regular[:count]

    def _prune(self, newest: int) -> None:
        """Removes checkpoints that are not needed in addition to that of step `newest`."""
        best = _read_description(self.path(newest))["state"].get("best_step")
        needed = {newest, best, *self.latest_regular(self.keep)}
        for step in self.steps():
            if step < newest and step not in needed:
                # Renamed first, so that a partly removed directory does not count as a checkpoint.
                doomed = self.directory / f".step_{step:08d}.{secrets.token_hex(4)}"
                os.rename(self.path(step), doomed)
                shutil.rmtree(doomed, ignore_errors=True)


def _read_description(path: pathlib.Path) -> dict[str, Any]:
    try:
        description = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        content, digest = description["content"], description["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpointError(f"{path}: damaged, {DESCRIPTION} is not readable.") from error
    if digest != _digest(content):
        raise DamagedCheckpointError(f"{path}: damaged, {DESCRIPTION} is not as it was written.")
    if content["format"] != FORMAT:
        fix = "Use the version of keras_transformer that made it, or start a new run elsewhere."
        problem = f"has format {content['format']}, expected {FORMAT}."
        raise UserError(problem, where=path, fix=fix)
    return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _fingerprint(path: pathlib.Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
