"""A training as it is described: one frozen object, checked whole before any work starts."""

import dataclasses
import re

from keras_transformer.checks import require_choice, require_seed, require_text
from keras_transformer.trainer.recipe.batches_section import BatchesSection
from keras_transformer.trainer.recipe.checkpoints_section import CheckpointsSection
from keras_transformer.trainer.recipe.data_section import COLUMNS, DataSection
from keras_transformer.trainer.recipe.evaluation_section import EvaluationSection
from keras_transformer.trainer.recipe.export_section import ExportSection
from keras_transformer.trainer.recipe.known_keys import unknown_key
from keras_transformer.trainer.recipe.model_section import ModelSection, model_keys
from keras_transformer.trainer.recipe.recipe_error import RecipeError
from keras_transformer.trainer.recipe.section import check_fields, plain, setting
from keras_transformer.trainer.recipe.strict_yaml import write_yaml
from keras_transformer.trainer.recipe.tensorboard_section import TensorboardSection
from keras_transformer.trainer.recipe.text_section import TextSection
from keras_transformer.trainer.recipe.training_section import TrainingSection

TASKS = tuple(COLUMNS)

#: All but `model`, whose keys depend on the task.
PLAIN_SECTIONS = {
    kind.key: kind
    for kind in (
        DataSection,
        TextSection,
        BatchesSection,
        TrainingSection,
        EvaluationSection,
        CheckpointsSection,
        TensorboardSection,
        ExportSection,
    )
}

_REQUIRED = {
    "name": "say what the model is called, such as dates",
    "task": f"say what it learns, {' or '.join(TASKS)}",
}


def require_directory_name(name, value):
    """Returns `value` if it can be the name of a directory on every system."""
    require_text(name, value)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", value):
        raise ValueError(
            f"`{name}` must be at most 100 letters, digits, _, - and ., the first neither - nor .: "
            f"it is the name of a directory; got {value!r}."
        )
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides about a training; `load_recipe` reads one from a file.

    Attributes:
        name: of the model, and of the directory of its exports.
        task: "translation", from a source to a target, or "language_model", text that goes on.
        seed: of everything that is random.
        data, text, model, batches, training, evaluation, checkpoints, tensorboard, export: its
            sections; see their classes.

    Example:

    >>> recipe = Recipe.from_dictionary({
    ...     "name": "dates",
    ...     "task": "translation",
    ...     "data": {"builtin": "dates"},
    ...     "model": {"preset": "tiny", "dropout": 0.0},
    ...     "training": {"steps": 1000},
    ... })
    >>> recipe.training.warmup_steps, recipe.model.settings["width"]
    (4000, 128)
    """

    name: str = setting(dataclasses.MISSING, require_directory_name)
    task: str = setting(dataclasses.MISSING, require_choice, choices=TASKS)
    seed: int = setting(1, require_seed)
    data: DataSection
    text: TextSection
    model: ModelSection
    batches: BatchesSection
    training: TrainingSection
    evaluation: EvaluationSection
    checkpoints: CheckpointsSection
    tensorboard: TensorboardSection
    export: ExportSection

    def __post_init__(self):
        _, mistakes = check_fields(type(self), vars(self))
        if mistakes or (mistakes := list(self._disagreements())):
            raise RecipeError(mistakes)

    @classmethod
    def from_dictionary(cls, dictionary):
        """Makes a recipe of a mapping from names to values, as `load_recipe` reads it from a file.

        Raises:
            RecipeError: with a line for each thing that is wrong.
        """
        if not isinstance(dictionary, dict):
            raise RecipeError(
                [f"A recipe must be a mapping from keys to values; got {dictionary!r}."]
            )
        values, mistakes = check_fields(cls, dictionary)
        mistakes += [
            f"`{key}` is missing: {advice}."
            for key, advice in _REQUIRED.items()
            if key not in dictionary
        ]
        given = _split(cls, dictionary, mistakes, values.get("task"))
        for key, kind in PLAIN_SECTIONS.items():
            if key in given:
                _collect(values, mistakes, key, lambda kind=kind, key=key: kind(**given[key]))
        if "model" in given and "task" in values:
            _collect(
                values,
                mistakes,
                "model",
                lambda: ModelSection.resolve(given["model"], values["task"], values.get("text")),
            )
        if mistakes:
            raise RecipeError(mistakes)
        return cls(**values)

    def to_dictionary(self):
        """Every key with its value, as the types that JSON and YAML have."""
        return {
            field.name: value.to_dictionary() if hasattr(value, "to_dictionary") else plain(value)
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
        }

    def to_yaml(self):
        """The recipe as resolved, as a file that `load_recipe` reads."""
        dictionary = self.to_dictionary()
        head = {key: dictionary.pop(key) for key in ("name", "task", "seed")}
        parts = [head, *({key: section} for key, section in dictionary.items())]
        title = "# As resolved: what the recipe did not say has its default.\n"
        return title + "\n".join(write_yaml(part) for part in parts)

    def _disagreements(self):
        """Yields a line for each mistake that is in no section alone."""
        yield from self.data.disagreements_with(self.task)
        if self.task == "translation":
            yield from self._disagreements_of_translation()
        else:
            yield from self._disagreements_of_language_model()
        yield from self._disagreements_of_validation()
        config = self.model.make_config(self.task, vocabulary_size=1)
        for field, limit in config.length_limits().items():
            if limit < self.batches.max_length:
                yield (
                    "`model.max_length` must be at least `batches.max_length` where "
                    f"`model.{field}` is {getattr(config, field)}; got {limit} and "
                    f"{self.batches.max_length}."
                )
        if self.checkpoints.final == "ema" and not self.training.ema:
            yield (
                "`training.ema` must be above 0, such as 0.999, for `checkpoints.final` 'ema'; got "
                f"{self.training.ema}."
            )
        rates = [rate for name, rate in self.model.settings.items() if name.endswith("dropout")]
        if self.training.consistency and not any(rates):
            yield (
                "`model.dropout` must be above 0 for `training.consistency`: without it the two "
                "predictions of a batch are the same; got 0.0."
            )
        profile, steps = self.tensorboard.profile, self.training.steps
        if profile is not None and steps is not None and profile[1] > steps:
            yield (
                f"`tensorboard.profile` must end by `training.steps`; got {list(profile)} and "
                f"{steps}."
            )

    def _disagreements_of_translation(self):
        if self.model.reads_trees:
            yield from self.data.disagreements_with_trees()
        if not self.text.shared and self.model.settings["share_embeddings"] == "all":
            yield (
                "`model.share_embeddings` must be target or none where `text.shared` is false: two "
                "vocabularies cannot share a table; got 'all'."
            )
        if self.batches.packed:
            yield "`batches.packed` must be false for the task 'translation'; got True."

    def _disagreements_of_language_model(self):
        if not self.text.shared:
            yield (
                "`text.shared` must be true for the task 'language_model', which has one "
                "vocabulary; got False."
            )
        if self.batches.packed:
            try:
                self.model.make_config(self.task, vocabulary_size=1, is_packed=True)
            except ValueError as error:
                yield f"`batches.packed`: {error}"
        if self.batches.packed and self.text.sampling:
            yield (
                "`text.sampling` must be 0 for packed rows, whose lengths are fixed; got "
                f"{self.text.sampling}. Or set `batches.packed` to false."
            )
        if self.data.test:
            yield (
                "`data.test` must be left out for the task 'language_model': tests compare "
                f"translations with references; got {', '.join(self.data.test)}. Name the files in "
                "`data.validation`."
            )
        if self.evaluation.metric != "loss":
            yield (
                "`evaluation.metric` must be loss for the task 'language_model', which has no "
                f"references; got {self.evaluation.metric!r}."
            )

    def _disagreements_of_validation(self):
        if self.data.has_validation:
            return
        needing = {
            "`evaluation.stop_after`": self.evaluation.stop_after is not None,
            f"`evaluation.metric` {self.evaluation.metric!r}": self.evaluation.metric != "loss",
            "`checkpoints.final` 'best'": self.checkpoints.final == "best",
        }
        for name, is_needed in needing.items():
            if is_needed:
                yield f"{name} needs validation data. Name files in `data.validation`."


def _split(cls, dictionary, mistakes, task):
    """Returns the known keys and values of each section; of what is wrong, adds to `mistakes`."""
    known = {"": [field.name for field in dataclasses.fields(cls)]}
    for key, kind in PLAIN_SECTIONS.items():
        known[key] = [field.name for field in dataclasses.fields(kind)]
    of_tasks = TASKS if task is None else (task,)
    known["model"] = list(dict.fromkeys(key for name in of_tasks for key in model_keys(name)))
    mistakes += [unknown_key("", key, known) for key in dictionary if key not in known[""]]
    given = {}
    for section in (*PLAIN_SECTIONS, "model"):
        values = dictionary.get(section)
        if values is None:  # left out, or nothing stands below it
            values = {}
        if not isinstance(values, dict):
            names = ", ".join(known[section][:3])
            mistakes.append(
                f"`{section}` must be a section with keys such as {names}; got {values!r}."
            )
            continue
        mistakes += [
            unknown_key(section, key, known) for key in values if key not in known[section]
        ]
        given[section] = {key: value for key, value in values.items() if key in known[section]}
    return given


def _collect(values, mistakes, key, make):
    """Puts what `make` gives into `values`, or its mistakes to the others."""
    try:
        values[key] = make()
    except RecipeError as error:
        mistakes.extend(error.mistakes)
