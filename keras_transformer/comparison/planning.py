"""Before anything is trained: how large each model is, and how many updates it makes."""

import dataclasses
import gc
import pathlib
import tempfile
import time

from keras_transformer.comparison.parameters import is_alike, match_width
from keras_transformer.errors import UserError
from keras_transformer.trainer.preparation import Corpora, prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.recipe_parts import make_loop, make_model
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_plan import TrainingPlan

# The first updates trace the model and are slow; then it is measured for a while.
_FIRST_UPDATES, _UPDATES_AT_ONCE, _TRIAL_SECONDS = 5, 5, 5.0
# Where the schedule of a trial ends: what it learns is of no account.
_FAR_END = 1_000_000


def make_plan(comparison, stored=None, say=print):
    """Builds each model once and returns the plan, a mapping for JSON.

    `tokens_per_update` are target tokens, padding left out; `data` are fingerprints of the corpora.
    For each of `models`: `recipe` (as it was asked for, to know it again), `overrides` (its width,
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
        is_inner = "feed_forward_width" in settings
        width_key = "model.feed_forward_width" if is_inner else "model.width"
        parameters = self._count(recipe)
        matched, overrides = recipe, []
        if self.comparison.match and reference and not is_alike(parameters, reference):
            self.say(f"Matching the size of {name}")
            width = match_width(
                lambda width: self._count(
                    self.comparison.recipe_of(name, [f"{width_key}={width}"])
                ),
                reference,
                settings[width_key.partition(".")[2]],
                8 if is_inner else 2 * settings.get("num_heads", 4),
            )
            overrides = [f"{width_key}={width}"]
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
