"""Rules about values of different sections of a recipe that conflict."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.trainer.section import conflict, in_section

if TYPE_CHECKING:
    from keras_transformer.trainer.config import DataSection, Recipe

#: Columns that the corpora of each task must have.
COLUMNS = {"translation": ("source", "target"), "language_model": ("text",)}


def conflicts(recipe: "Recipe") -> Iterator[UserError]:
    """Yields a mistake for each rule that a recipe breaks, with dotted keys."""
    yield from _conflicts_of_corpora(recipe)
    if recipe.task == "translation":
        yield from _conflicts_of_translation(recipe)
    else:
        yield from _conflicts_of_language_model(recipe)
    if not recipe.data.has_validation:
        yield from _conflicts_without_validation(recipe)
    length = recipe.batches.max_length
    config = recipe.model.make_config(recipe.task, vocabulary_size=1)
    for field, limit in config.length_limits().items():
        if limit < length:
            expected = f"at least batches.max_length={length} for model.{field}="
            expected += repr(getattr(config, field))
            related = ("batches.max_length", f"model.{field}")
            yield ArgumentError("model.max_length", expected, limit, related=related)
    if recipe.checkpoints.final == "ema" and not recipe.training.ema:
        expected = "above 0, such as 0.999, for checkpoints.final='ema'"
        yield conflict(recipe, "training.ema", expected, "checkpoints.final")
    rates = [rate for name, rate in recipe.model.settings.items() if name.endswith("dropout")]
    if recipe.training.r_drop_alpha and not any(rates):
        expected = "above 0 for training.r_drop_alpha, which compares two predictions with dropout"
        yield ArgumentError("model.dropout", expected, 0.0, related=("training.r_drop_alpha",))
    profile, steps = recipe.tensorboard.profile, recipe.training.steps
    if profile is not None and steps is not None and profile[1] > steps:
        expected = f"within training.steps={steps}"
        yield conflict(recipe, "tensorboard.profile", expected, "training.steps")


def _conflicts_of_corpora(recipe: "Recipe") -> Iterator[UserError]:
    """Yields the first corpus that does not fit the task, as far as names of files show."""
    from keras_transformer.data.corpora import find_columns

    task = recipe.task
    if recipe.data.builtin and task != "translation":
        expected = f"null for the task {task!r}, because the built-in corpora have pairs"
        yield conflict(recipe, "data.builtin", expected, "task", fix="Name files in `data.train`.")
    for key, files in recipe.data.corpora.items():
        try:
            columns = find_columns(files, **recipe.data.reading_options)
        except UserError as error:
            if error.argument is None:
                yield error.renamed(f"data.{key}")
            elif error.argument in recipe.data.format_options:
                yield in_section(error, "data.format_options")
            else:
                yield in_section(error, "data")
            return
        if columns != COLUMNS[task]:
            fix = "Set `data.format`, `data.columns` or `data.keys`, or choose another `task`."
            if task == "translation" and len(files) == 1:
                fix = f"Name two files, such as [train.en, train.de]. {fix}"
            yield UserError(
                f"the task {task!r} needs {' and '.join(COLUMNS[task])}; {' and '.join(files)} "
                f"{'holds' if len(files) == 1 else 'hold'} {' and '.join(columns)}.",
                argument=f"data.{key}",
                related=("task",),
                fix=fix,
            )
            return


def _conflicts_of_trees(data: "DataSection") -> Iterator[UserError]:
    """Yields the first corpus without dependency trees, for a model that reads them."""
    from keras_transformer.data.corpora import guess_format

    if data.builtin:
        yield UserError(
            f"needs parsed sources, which the built-in corpus {data.builtin!r} does not have.",
            argument="model.tree_positions",
            related=("data.builtin",),
            fix="Name CoNLL-U files in `data.train`, or set `model.tree_positions` to none.",
        )
    for key, files in data.corpora.items():
        try:
            is_parsed = (data.format or guess_format(files)) == "conllu"
        except UserError:  # reported by `_conflicts_of_corpora`
            continue
        if not is_parsed:
            yield ArgumentError(
                f"data.{key}",
                "parsed sources, as [train.conllu, train.en] has, for model.tree_positions",
                ", ".join(files),
                related=("model.tree_positions",),
                fix="Set `data.format` to conllu, or `model.tree_positions` to none.",
            )
            return


def _conflicts_of_translation(recipe: "Recipe") -> Iterator[UserError]:
    if recipe.model.reads_trees:
        yield from _conflicts_of_trees(recipe.data)
    is_new = recipe.model.source is None  # another model has chosen already
    if is_new and not recipe.text.shared and recipe.model.settings["share_embeddings"] == "all":
        expected = "'target' or 'none' with text.shared=false, which gives two vocabularies"
        yield ArgumentError("model.share_embeddings", expected, "all", related=("text.shared",))
    if recipe.batches.packed:
        yield conflict(recipe, "batches.packed", "false for the task 'translation'", "task")


def _conflicts_of_language_model(recipe: "Recipe") -> Iterator[UserError]:
    task = "the task 'language_model'"
    if not recipe.text.shared:
        yield conflict(recipe, "text.shared", f"true for {task}, which has one vocabulary", "task")
    if recipe.batches.packed:
        try:
            recipe.model.make_config(recipe.task, vocabulary_size=1, is_packed=True)
        except UserError as error:
            problem, related = f"not possible with this model: {error}", ("model.attention",)
            yield UserError(problem, argument="batches.packed", related=related)
    if recipe.batches.packed and recipe.text.sampling:
        expected, fix = "0 for rows of a fixed length", "Or set `batches.packed` to false."
        yield conflict(recipe, "text.sampling", expected, "batches.packed", fix=fix)
    if recipe.data.test:
        expected = f"left out for {task}, because tests compare translations with references"
        fix = "Name the files in `data.validation`."
        yield conflict(recipe, "data.test", expected, "task", fix=fix)
    if recipe.evaluation.metric != "loss":
        expected = f"'loss' for {task}, which has no references"
        yield conflict(recipe, "evaluation.metric", expected, "task")


def _conflicts_without_validation(recipe: "Recipe") -> Iterator[UserError]:
    evaluation, final = recipe.evaluation, recipe.checkpoints.final
    for key, value, is_allowed in (
        ("evaluation.patience", evaluation.patience, evaluation.patience is None),
        ("evaluation.metric", evaluation.metric, evaluation.metric == "loss"),
        ("checkpoints.final", final, final != "best"),
    ):
        if not is_allowed:
            fix = "Name files in `data.validation`."
            yield UserError(f"{value!r} needs validation data.", argument=key, fix=fix)
