"""TODO"""

import json
import pathlib

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.recipes import load_recipe, recipe_difference
from keras_transformer.trainer.run_directory import CORPORA


class RunPlace:
    """The directory of a run in that of a comparison.

    | what | what it holds |
    |---|---|
    | `recipe.yaml` | the run's recipe, as resolved |
    | `run/` | the training's own directory; see `RunDirectory` |
    | `speed.jsonl` | see `SpeedLog` |
    | `measured.json` | what came out; when it is there, the run is not repeated |

    Args:
        path: of the directory.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.recipe = self.path / "recipe.yaml"
        self.run = self.path / "run"
        self.speed = self.path / "speed.jsonl"
        self.measured = self.path / "measured.json"

    @classmethod
    def of(cls, output, model, seed):
        """That of a model and a seed in a comparison's directory."""
        return cls(pathlib.Path(output, model, f"seed_{seed}"))

    @property
    def is_finished(self):
        return self.measured.exists()

    def require_recipe(self, recipe):
        """Raises a `UserError` if the run was begun with another recipe."""
        if not self.recipe.exists():
            return
        differences = recipe_difference(load_recipe(self.recipe), recipe)
        if differences:
            shown = "; ".join(f"{key} was {old!r}, is {new!r}" for key, old, new in differences)
            raise UserError(
                f"{self.path}: was begun with another recipe: {shown}. Name another directory with "
                "--output, or remove this one to have the run again."
            )

    def require_data(self, fingerprints):
        """Raises a `UserError` if the run has read other corpora than there are now.

        Args:
            fingerprints: by the name of the corpus.
        """
        stored = self.run / CORPORA
        if not stored.exists():  # it has read none yet
            return
        read = json.loads(stored.read_text(encoding="utf-8"))
        changed = [name for name in fingerprints if read.get(name) != fingerprints[name]]
        if changed:
            raise UserError(
                f"{self.path}: was begun with other files for data.{', data.'.join(changed)} than "
                "there are now. Restore them, name another directory with --output, or remove this "
                "one to have the run again."
            )

    def read(self):
        """What came out of the run, a mapping."""
        try:
            return json.loads(self.measured.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(
                f"{self.measured}: damaged ({error}). Remove it, and the same command writes it "
                "again."
            ) from error

    def curve(self):
        """The losses as (update, loss): of validation, or of training where there is none."""
        text = (self.run / "metrics.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        validation = [line for line in lines if line["split"] == "validation"]
        return [(line["update"], line["loss"]) for line in validation or lines]
