"""The directory of a run: its lock, its recipe, and the paths of its files."""

import json
import os
import pathlib
import platform
import shutil
from collections.abc import Callable, Mapping
from typing import Any, Self

import filelock

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import LEFTOVER
from keras_transformer._utils.types import Path
from keras_transformer.export.run_manifest import RUN_MANIFEST, RunManifest
from keras_transformer.export.trained_model import RUN_RECIPE
from keras_transformer.export.versions import require_loadable
from keras_transformer.text import TokenizerPair
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.recipes import load_recipe, recipe_difference

ENVIRONMENT, CORPORA, LOCK = "environment.json", "corpora.json", ".lock"
RESULT, METRICS, TOKENIZERS = "result.json", "metrics.jsonl", "tokenizers"
_FIX = "Choose another directory with --run."

#: Keys of a recipe that may change with `force`, because they do not affect the training steps.
CHANGEABLE = (
    "training.steps",
    "training.epochs",
    "training.loggers",
    "evaluation.",
    "checkpoints.",
    "tensorboard.",
)
#: Keys that may always change.
CHANGEABLE_ALWAYS = ("export.",)


class RunDirectory:
    """The directory of a run, locked between `lock` and the end of a `with` block.

    | path | content |
    |---|---|
    | `manifest.json` | the sha256 of the files that are not marked with ° |
    | `recipe.yaml` | the recipe with every default filled in |
    | `environment.json` | versions and devices of the first start |
    | `tokenizers/` | the vocabulary |
    | `corpora.json` | fingerprints of the corpora |
    | `cache/`° | the tokenized corpora, unless the recipe names another directory |
    | `checkpoints/`° | see `Checkpoints` |
    | `metrics.jsonl` | metrics by step, byte for byte the same for interrupted runs |
    | `tensorboard/`° | event files |
    | `model/`° | the final weights and all that an export needs; see `TrainedModel` |
    | `export/`° | the exported versions, unless the recipe names another directory |
    | `result.json` | the result; its presence means that the run is finished |

    `metrics.jsonl` is in the manifest when the run is finished. The directories that are marked
    have sums of their own.

    Args:
        path: Path of the directory.
        is_writer: Whether this process may write; of several workers, one may. Default True.
    """

    def __init__(self, path: Path, is_writer: bool = True) -> None:
        self.path: pathlib.Path = pathlib.Path(path)
        self.is_writer = is_writer
        self.recipe_file: pathlib.Path = self.path / RUN_RECIPE
        self.tokenizers: pathlib.Path = self.path / TOKENIZERS
        self.corpora: pathlib.Path = self.path / CORPORA
        self.cache: pathlib.Path = self.path / "cache"
        self.checkpoints: pathlib.Path = self.path / "checkpoints"
        self.tensorboard: pathlib.Path = self.path / "tensorboard"
        self.model: pathlib.Path = self.path / "model"
        self.export: pathlib.Path = self.path / "export"
        self.result: pathlib.Path = self.path / RESULT
        self._lock = filelock.FileLock(self.path / LOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def lock(self) -> Self:
        """Creates the directory if necessary and locks it against other trainings."""
        self._make_directory()
        if self.is_writer:
            try:
                self._lock.acquire(timeout=0)
            except filelock.Timeout as error:
                problem = "another training is using this directory."
                fix = "Wait for it, or choose another directory with --run."
                raise UserError(problem, where=self.path, fix=fix) from error
            for entry in list(self.path.iterdir()):
                if LEFTOVER.fullmatch(entry.name) and entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                elif LEFTOVER.fullmatch(entry.name):
                    entry.unlink(missing_ok=True)
        return self

    def require_recipe(self, recipe: Recipe, force: bool = False) -> bool:
        """Returns whether the recipe differs from that of the run; refuses changes of other keys.

        The keys in `CHANGEABLE_ALWAYS` may differ, and with `force` also those in `CHANGEABLE`. If
        the run has no other files yet, all keys may differ. The files of the run must be those of
        its manifest.
        """
        if not self.recipe_file.exists() and not os.path.lexists(self.path / RUN_MANIFEST):
            return False
        names = {entry.name for entry in self.path.iterdir()}
        if self.is_writer and names <= {LOCK, RUN_RECIPE, ENVIRONMENT, RUN_MANIFEST}:
            return False
        self.check()
        try:
            stored = load_recipe(self.recipe_file)
        except UserError as error:
            problem = f"not a recipe of keras_transformer {__version__} ({error})."
            raise UserError(problem, where=self.recipe_file, fix=_FIX) from error
        differences = recipe_difference(stored, recipe)
        allowed = CHANGEABLE_ALWAYS + (CHANGEABLE if force else ())
        refused = [each for each in differences if not each.key.startswith(allowed)]
        if not refused:
            return bool(differences)
        listed = "; ".join(map(str, refused))
        fix = "Use the recipe that it was started with, or another directory with --run"
        if not force and all(each.key.startswith(CHANGEABLE) for each in refused):
            fix += ", or allow the change with --force"
        problem = f"this run was started with another recipe: {listed}."
        raise UserError(problem, where=self.path, fix=f"{fix}.")

    def store_recipe(self, recipe: Recipe) -> None:
        """Writes the recipe of the run; an earlier result is removed."""
        if self.is_writer:
            manifest = self._manifest()
            manifest.remove(RESULT)
            manifest.forget(METRICS)  # training appends to it
            manifest.write(RUN_RECIPE, recipe.to_yaml().encode())

    def store_result(self, content: str) -> None:
        """Writes the result of the finished training; its metrics become part of the manifest."""
        if (self.path / METRICS).is_file():
            self._manifest().add(METRICS)
        self._write(RESULT, content)

    def store_tokenizers(self, tokenizers: TokenizerPair) -> None:
        """Writes the vocabulary in place of one that was learned before the corpora changed."""
        manifest = self._manifest()
        manifest.remove(CORPORA)
        manifest.remove(TOKENIZERS)
        tokenizers.save(self.tokenizers)
        manifest.add(TOKENIZERS)

    def store_environment(self, say: Callable[[str], None]) -> None:
        """Writes the environment of the first start; reports with `say` what has changed since."""
        now = _environment()
        path = self.path / ENVIRONMENT
        try:
            first = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._write(ENVIRONMENT, json.dumps(now, indent=1) + "\n")
            return
        for name, value in now.items():
            if first.get(name) != value:
                change = f"started with {name} {first.get(name)} and is resumed with {value}"
                say(f"This run was {change}: the last digits of its numbers may differ.")

    def has_read(self, fingerprints: Mapping[str, Any]) -> bool:
        """Returns whether the stored vocabulary is that of corpora with these fingerprints."""
        if not self.tokenizers.exists() or TOKENIZERS not in self._manifest():
            return False  # killed while it was written
        # With a checkpoint, resuming checks whether the data fit it.
        if self.checkpoints.exists() and any(self.checkpoints.glob("step_*")):
            return True
        try:
            return json.loads(self.corpora.read_text(encoding="utf-8")) == fingerprints
        except (OSError, ValueError):
            return False

    def store_fingerprints(self, fingerprints: Mapping[str, Any]) -> None:
        """Writes the fingerprints that `has_read` compares."""
        self._write(CORPORA, json.dumps(fingerprints, indent=1) + "\n")

    def check(self) -> None:
        """Raises a `UserError` unless the files are those of the manifest."""
        RunManifest.read(self.path).check()

    def seal(self) -> None:
        """Rewrites the manifest with the current checksums of the files of the run."""
        names = (RUN_RECIPE, ENVIRONMENT, CORPORA, TOKENIZERS, RESULT)
        if self.result.exists():  # an unfinished training appends to its metrics
            names += (METRICS,)
        manifest = RunManifest.new(self.path)
        manifest.add(*(name for name in names if os.path.lexists(self.path / name)))

    def require_writer(self) -> None:
        """Raises a `UserError` in a worker that does not find the files of the first worker."""
        if not self.is_writer:
            fix = "The run directory must be on a file system that all workers share."
            problem = "the files of the first worker are not here."
            raise UserError(problem, where=self.path, fix=fix)

    def _write(self, name: str, text: str) -> None:
        if self.is_writer:
            self._manifest().write(name, text.encode())

    def _manifest(self) -> RunManifest:
        if os.path.lexists(self.path / RUN_MANIFEST):
            return RunManifest.read(self.path)
        return RunManifest.new(self.path)

    def _make_directory(self) -> None:
        require_loadable(self.path)
        for place in (self.path, *self.path.parents):
            if os.path.lexists(place) and not place.is_dir():
                raise UserError("not a directory.", where=place, fix=_FIX)
        if self.path.is_dir() and not self.recipe_file.exists():
            names = {entry.name for entry in self.path.iterdir()} - {LOCK, RUN_MANIFEST}
            if not all(map(LEFTOVER.fullmatch, names)):
                problem = "this directory contains files of something else."
                raise UserError(problem, where=self.path, fix=_FIX)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError
        except PermissionError as error:
            raise UserError("permission denied.", where=self.path, fix=_FIX) from error


def _environment() -> dict[str, str]:
    import keras
    import tensorflow as tf

    devices = [device.device_type for device in tf.config.list_logical_devices()]
    return {
        "keras_transformer": __version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "devices": ", ".join(f"{devices.count(kind)} {kind}" for kind in sorted(set(devices))),
    }
