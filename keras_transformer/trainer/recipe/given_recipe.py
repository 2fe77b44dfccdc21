"""What a person gave, and where: a file, and `--set key=value`."""

import re

from keras_transformer.errors import UserError
from keras_transformer.printable import shown
from keras_transformer.trainer.recipe.recipe_error import RecipeError
from keras_transformer.trainer.recipe.strict_yaml import YamlError, read_yaml


class GivenRecipe:
    """The keys and values of a file, some of them set anew, and where each of them stands.

    Args:
        path: the file's, for messages.
        text: what the file holds.

    Raises:
        UserError: with line and column, if that is no mapping in YAML.
    """

    def __init__(self, path, text):
        self.path = path
        try:
            self.values, lines = read_yaml(text)
        except YamlError as error:
            raise UserError(f"{path}:{error.line}:{error.column}: {shown(str(error))}") from error
        if self.values is None:
            raise UserError(
                f"{path}:1:1: the recipe is empty. Start with name, task, data and training."
            )
        if not isinstance(self.values, dict):
            raise UserError(
                f"{path}:1:1: a recipe must be lines of 'key: value'; got {self.values!r:.60}."
            )
        #: For each dotted key a place to sort by, and how a message calls it.
        self._origins = {key: ((0, line), f"{path}:{line}") for key, line in lines.items()}

    def set(self, override):
        """Sets a key anew, as `training.steps=100` says; the value is read as in the file."""
        key, value = parse_override(override)
        *sections, last = key.split(".")
        place = self.values
        for section in sections:
            if place.get(section) is None:
                place[section] = {}
            place = place[section]
            if not isinstance(place, dict):
                raise UserError(f"--set {override}: `{section}` has no keys; it is {place!r:.60}.")
        place[last] = value
        for old in [old for old in self._origins if old.startswith(f"{key}.")]:
            del self._origins[old]
        self._origins[key] = ((1, len(self._origins)), f"--set {override}")

    def located(self, mistakes):
        """The same mistakes, in the order and with the places where they were made."""
        placed = [(*self._origin(mistake), mistake) for mistake in mistakes]
        lines = [f"{place}: {mistake}" for _, place, mistake in sorted(placed)]
        return RecipeError(lines, origin=self.path)

    def _origin(self, mistake):
        """Where one of the keys that a mistake names was given: by --set if one was.

        A key that was given, or something in it, goes before one whose section was; the first goes
        before the others.
        """
        keys = re.findall(r"`([\w.-]+)`", mistake)
        inside = [known for key in keys for known in self._origins if known.startswith(f"{key}.")]
        around = [section for key in keys for section in _sections(key)]
        given = [self._origins[key] for key in (*keys, *inside, *around) if key in self._origins]
        return max(given, key=lambda origin: origin[0][0], default=((0, 0), self.path))


def _sections(key):
    """What a dotted key is in, the innermost first.

    >>> _sections("evaluation.search.beams")
    ['evaluation.search', 'evaluation']
    """
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def parse_override(override):
    """The dotted key and the value of a text of --set; the value is read as in a file.

    >>> parse_override("training.learning_rate=1e-3")
    ('training.learning_rate', 0.001)
    """
    key, equals, text = override.partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(f"--set {override}: must look like key=value, as training.steps=100.")
    try:
        return key, read_yaml(text)[0]
    except YamlError as error:
        raise UserError(f"--set {override}: {error}") from error
