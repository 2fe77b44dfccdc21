"""The directory of a run: all that a training reads again and all that it leaves."""

import contextlib
import fcntl
import json
import os
import pathlib
import platform
import re
import shutil

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer._utils.files import atomic_file
from keras_transformer.export.trained_model import RUN_RECIPE
from keras_transformer.export.versions import require_loadable
from keras_transformer.trainer.recipes import load_recipe, recipe_difference

ENVIRONMENT, CORPORA, LOCK = "environment.json", "corpora.json", ".lock"
# What `keras_transformer._utils.files` was writing when a process was killed.
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{16}")

#: What may change under way with `force`: how often something is looked at, and when to stop.
CHANGEABLE = ("training.steps", "training.epochs", "evaluation.", "checkpoints.", "tensorboard.")
CHANGEABLE_ALWAYS = ("export.",)


class RunDirectory:
    """A run's directory, locked while it is open.

    | what | what it holds |
    |---|---|
    | `recipe.yaml` | the recipe as resolved, every default filled in |
    | `environment.json` | versions and devices of the first start |
    | `tokenizers/` | the vocabulary |
    | `corpora.json` | fingerprints of the files that were read for it, and of all others |
    | `cache/` | the tokenized corpora, unless the recipe names another place |
    | `checkpoints/` | see `Checkpoints` |
    | `metrics.jsonl` | a line for each point of the curves, byte for byte the same in every run |
    | `tensorboard/` | event files |
    | `model/` | the final weights, with all that an export needs; see `TrainedModel` |
    | `export/` | the exported versions, unless the recipe names another place |
    | `result.json` | what came out; when it is there, the run is finished |

    Args:
        path: of the directory.
        is_writer: whether this process may write; of several workers, one may.
    """

    def __init__(self, path, is_writer=True):
        self.path = pathlib.Path(path)
        self.is_writer = is_writer
        self.recipe_file = self.path / RUN_RECIPE
        self.tokenizers = self.path / "tokenizers"
        self.corpora = self.path / CORPORA
        self.cache = self.path / "cache"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.model = self.path / "model"
        self.export = self.path / "export"
        self.result = self.path / "result.json"

    @contextlib.contextmanager
    def locked(self):
        """Inside, no other process can open the directory; a killed one leaves no lock behind."""
        self._require_directory()
        with (self.path / LOCK).open("a") as file:
            try:
                if self.is_writer:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(
                    f"{self.path}: is in use by another training. Wait for it, or name another "
                    "directory with --run."
                ) from error
            if self.is_writer:
                self._remove_leftovers()
            yield

    def require_recipe(self, recipe, force=False):
        """Raises `UserError` if the run was begun with another recipe.

        One that came no further than its recipe, such as for a file that is not there, has not
        begun.

        Args:
            recipe: the `Recipe`.
            force: whether what may change under way is allowed to.

        Returns:
            Whether it is another one, with changes that are allowed.
        """
        is_begun = self.recipe_file.exists() and not (self.is_writer and self._holds_no_work())
        return is_begun and self._require_same(recipe, force)

    def store_recipe(self, recipe):
        """Writes the recipe with which the run goes on; what came out before no longer counts."""
        if self.is_writer:
            self.result.unlink(missing_ok=True)
        self._write(self.recipe_file, recipe.to_yaml())

    def note_environment(self, say):
        """Stores with what the run was begun; tells if it goes on with something else."""
        now = _environment()
        path = self.path / ENVIRONMENT
        try:
            begun = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._write(path, json.dumps(now, indent=1) + "\n")
            return
        for name in now:
            if begun.get(name) != now[name]:
                say(
                    f"The run was begun with {name} {begun.get(name)}, and goes on with "
                    f"{now[name]}: the numbers may differ in their last digits."
                )

    def has_read(self, fingerprints):
        """Whether the vocabulary that is there was learned from these corpora.

        A run with a checkpoint knows by itself what it was trained with.

        Args:
            fingerprints: by the name of the corpus.
        """
        if self.checkpoints.exists() and any(self.checkpoints.glob("update_*")):
            return True
        try:
            return json.loads(self.corpora.read_text(encoding="utf-8")) == fingerprints
        except (OSError, ValueError):
            return False

    def store_fingerprints(self, fingerprints):
        """Writes what `has_read` looks for."""
        self._write(self.corpora, json.dumps(fingerprints, indent=1) + "\n")

    def require_writer(self):
        """Raises if another worker must have written what is not there."""
        if not self.is_writer:
            raise UserError(
                f"{self.path}: the first worker's files are not here. The run's directory must be "
                "on a file system that all workers share."
            )

    def _write(self, path, text):
        if self.is_writer:
            with named_file_errors(path), atomic_file(path) as file:
                file.write(text)

    def _require_directory(self):
        require_loadable(self.path)
        advice = "Name another directory with --run."
        for place in (self.path, *self.path.parents):
            if os.path.lexists(place) and not place.is_dir():
                raise UserError(f"{place}: is not a directory. {advice}")
        is_other = self.path.is_dir() and not self.recipe_file.exists()
        if is_other and any(
            entry.name != LOCK and not _LEFTOVER.fullmatch(entry.name)
            for entry in self.path.iterdir()
        ):
            raise UserError(f"{self.path}: holds something that is not a run. {advice}")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError
        except PermissionError as error:
            raise UserError(f"{self.path}: permission denied. {advice}") from error

    def _holds_no_work(self):
        return {entry.name for entry in self.path.iterdir()} <= {LOCK, RUN_RECIPE, ENVIRONMENT}

    def _remove_leftovers(self):
        for entry in list(self.path.iterdir()):
            if _LEFTOVER.fullmatch(entry.name):
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)

    def _require_same(self, recipe, force):
        try:
            stored = load_recipe(self.recipe_file)
        except UserError as error:
            raise UserError(
                f"{self.recipe_file}: cannot be read as a recipe of keras_transformer "
                f"{__version__} ({error}). Name another directory with --run."
            ) from error
        differences = recipe_difference(stored, recipe)
        allowed = CHANGEABLE_ALWAYS + (CHANGEABLE if force else ())
        refused = [change for change in differences if not change[0].startswith(allowed)]
        if not refused:
            return bool(differences)
        shown = "; ".join(f"{key} was {old!r}, is {new!r}" for key, old, new in refused)
        advice = "Give the recipe it was begun with, or another directory with --run"
        if not force and all(key.startswith(CHANGEABLE) for key, _, _ in refused):
            advice += ", or change it under way with --force"
        raise UserError(f"{self.path}: was begun with another recipe: {shown}. {advice}.")


def _environment():
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
