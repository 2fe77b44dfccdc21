"""Before anything is trained: how large each model is, and how many updates it makes."""

import dataclasses
import gc
import pathlib
import tempfile
import time

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.preparation import Corpora, make_loop, make_model, prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_plan import TrainingPlan

#: How far from the first model's a number of parameters may be.
TOLERANCE = 0.1


def is_alike(parameters, reference):
    """Whether a model has nearly as many parameters as another.

    >>> is_alike(1_100_000, 1_000_000), is_alike(1_101_000, 1_000_000)
    (True, False)
    """
    return abs(parameters - reference) <= TOLERANCE * reference


def require_alike(parameters, width_keys, is_matched=False):
    """Raises a `UserError` unless all models have nearly as many parameters as the first.

    Args:
        parameters: by the name of the model.
        width_keys: for each model the key of the recipe that makes it wider.
        is_matched: whether widths have been changed already until they were as near as they get.
    """
    first = next(iter(parameters))
    reference = parameters[first]
    others = [name for name in parameters if not is_alike(parameters[name], reference)]
    if not others:
        return
    shown = "; ".join(
        f"{name!r} has {parameters[name]:,} ({parameters[name] / reference - 1:+.0%})"
        + ("" if is_matched else f", change its `{width_keys[name]}`")
        for name in others
    )
    advice = "Or have them matched with --match."
    if is_matched:
        advice = (
            "No hidden_dim brings them nearer: most of their weights lie elsewhere, such as in tables "
            "of `model.max_length` rows. Change that, or the mechanism's options."
        )
    raise UserError(
        f"All models must have as many parameters as the first, {first!r}, within "
        f"{TOLERANCE:.0%}: it has {reference:,}, but {shown}. {advice}"
    )


def match_width(count, reference, hidden_dim, multiple):
    """Returns the hidden_dim with which a model has most nearly so many parameters.

    >>> match_width(lambda hidden_dim: 3 * hidden_dim * hidden_dim, reference=30_000, hidden_dim=40, multiple=8)
    96

    Args:
        count: a function from a hidden_dim to the number of parameters, which grows with it.
        reference: the number that is wanted.
        hidden_dim: where to begin.
        multiple: the hidden_dim is one of this; also the least there is.
    """
    counts = {}

    def parameters(number):
        if number not in counts:
            counts[number] = count(number * multiple)
        return counts[number]

    low, high = 1, max(1, hidden_dim // multiple)
    while parameters(high) < reference:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if parameters(middle) >= reference else (middle, high)
    return multiple * min((low, high), key=lambda number: abs(parameters(number) - reference))


# The first updates trace the model and are slow; then it is measured for a while.
_FIRST_UPDATES, _UPDATES_AT_ONCE, _TRIAL_SECONDS = 5, 5, 5.0
# Where the schedule of a trial ends: what it learns is of no account.
_FAR_END = 1_000_000


def make_plan(comparison, stored=None, say=print):
    """Builds each model once and returns the plan, a mapping for JSON.

    `tokens_per_update` are target tokens, padding left out; `data` are fingerprints of the corpora.
    For each of `models`: `recipe` (as it was asked for, to know it again), `overrides` (its hidden_dim,
    if that was matched), `parameters`, `width_key` and `updates`.

    Args:
        comparison: the `Comparison`.
        stored: an older plan. What it says of models that have not changed holds on, so that a
            comparison that is resumed, or gets another model, goes on with the same numbers.
        say: is called with a line for people who wait.
    """
    recipes = comparison.recipes()
    fingerprints = data_fingerprints(recipes)
    with tempfile.TemporaryDirectory(prefix="plan_") as directory:
        say("Preparing the data")
        first = next(iter(recipes.values()))
        run = RunDirectory(pathlib.Path(directory, "run"))
        with run.locked():
            data = prepare_data(first, run, TrainingReport())
        tokens = _tokens_per_update(first, data.batches)
        planner = _Planner(comparison, fingerprints, data, tokens, say)
        return planner.make(recipes, stored or {})


def data_fingerprints(recipes):
    """The fingerprints of the corpora that all recipes share, by name; none of built-in ones."""
    data = next(iter(recipes.values())).data
    return {} if data.builtin else Corpora.of(data).fingerprints()


def is_planned(comparison, recipes, fingerprints, plan):
    """Whether a plan holds all that is asked for now.

    Args:
        comparison: the `Comparison`.
        recipes: its `recipes()`.
        fingerprints: what `data_fingerprints` gives of them now.
        plan: a stored plan.
    """
    reference = None
    for name, recipe in recipes.items():
        if not _is_same(comparison, name, recipe, fingerprints, reference, plan):
            return False
        reference = reference or plan["models"][name]["parameters"]
    return True


def _is_same(comparison, name, recipe, fingerprints, reference, plan):
    entry = plan.get("models", {}).get(name)
    return (
        entry is not None
        and plan.get("budget") == comparison.budget.to_dictionary()
        and plan.get("match") == comparison.match
        and plan.get("data", fingerprints) == fingerprints
        and entry["recipe"] == recipe.to_dictionary()
        and (not comparison.match or _is_matched(entry, reference))
    )


def _is_matched(entry, reference):
    """Whether a model has the size that it gets now; another may have been the first before."""
    if reference is None:
        return not entry["overrides"]
    return is_alike(entry["parameters"], reference)


@dataclasses.dataclass
class _Planner:
    comparison: object
    fingerprints: dict
    data: object
    tokens_per_update: float
    say: object

    def make(self, recipes, stored):
        plan = {
            "budget": self.comparison.budget.to_dictionary(),
            "match": self.comparison.match,
            "data": self.fingerprints,
            "tokens_per_update": self.tokens_per_update,
            # Of models that are not asked for now, too: they may be again.
            "models": dict(stored.get("models", {})),
        }
        reference = None
        for name, recipe in recipes.items():
            if _is_same(self.comparison, name, recipe, self.fingerprints, reference, stored):
                entry = stored["models"][name]
            else:
                self.say(f"Building {name}")
                entry = self._entry(name, recipe, reference)
            plan["models"][name] = entry
            reference = reference or entry["parameters"]
        return plan

    def _entry(self, name, recipe, reference):
        settings = recipe.model.settings
        is_inner = "intermediate_dim" in settings
        width_key = "model.intermediate_dim" if is_inner else "model.hidden_dim"
        parameters = self._count(recipe)
        matched, overrides = recipe, []
        if self.comparison.match and reference and not is_alike(parameters, reference):
            self.say(f"Matching the size of {name}")
            hidden_dim = match_width(
                lambda hidden_dim: self._count(
                    self.comparison.recipe_of(name, [f"{width_key}={hidden_dim}"])
                ),
                reference,
                settings[width_key.partition(".")[2]],
                8 if is_inner else 2 * settings.get("num_heads", 4),
            )
            overrides = [f"{width_key}={hidden_dim}"]
            matched = self.comparison.recipe_of(name, overrides)
            parameters = self._count(matched)
        return {
            "recipe": recipe.to_dictionary(),
            "overrides": overrides,
            "width_key": width_key,
            "parameters": parameters,
            "updates": self._updates(matched),
        }

    def _count(self, recipe):
        gc.collect()  # the model before it: Keras' models are only found by the collector
        return make_model(recipe, self.data.tokenizers).count_params()

    def _updates(self, recipe):
        budget = self.comparison.budget
        if budget.tokens is not None:
            return max(1, round(budget.tokens / self.tokens_per_update))
        if budget.seconds is not None:
            return max(1, round(budget.seconds * self._updates_per_second(recipe)))
        return TrainingPlan.of(recipe, len(self.data.batches)).total

    def _updates_per_second(self, recipe):
        """How fast a model trains, by a trial of which nothing is kept."""
        self.say("Measuring how fast it trains")
        model = make_model(recipe, self.data.tokenizers)
        loop = make_loop(recipe, model, self.data.batches, _FAR_END, recipe.batches.accumulate)
        loop.run(_FIRST_UPDATES)
        updates, start, seconds = 0, time.perf_counter(), 0.0
        while seconds < _TRIAL_SECONDS:
            loop.run(_UPDATES_AT_ONCE)
            updates += _UPDATES_AT_ONCE
            seconds = time.perf_counter() - start
        return updates / seconds


def _tokens_per_update(recipe, batches):
    """Target tokens of an update on average, END included, padding not."""
    report = batches.report()
    if not report.batches:
        raise UserError("There is nothing to compare on: the training data has no batches.")
    columns = batches.cache.sequence_columns.values()
    counts = [column.tokens + len(batches.cache) for column in columns]
    target_share = counts[-1] / sum(counts)
    return report.tokens * target_share / report.batches * recipe.batches.accumulate
