"""A comparison from its plan to its table and picture."""

import itertools
import json
import os
import pathlib
import signal
import subprocess

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.process import answered_signals, command_line
from keras_transformer.analysis.compare.comparison import Comparison
from keras_transformer.analysis.compare.planning import (
    data_fingerprints,
    is_planned,
    make_plan,
    require_alike,
)
from keras_transformer.analysis.compare.report import draw_results, make_markdown
from keras_transformer.analysis.compare.results import collect_results
from keras_transformer.analysis.compare.run_place import RunPlace


class ComparisonStopped(Exception):  # noqa: N818
    """One of its steps has ended otherwise than well, and has told why; all else is kept.

    Attributes:
        exit_code: of that step: 2 for a mistake of the user's, 130, 143 or 129 by a signal, 1 for
            any other failure.
    """

    def __init__(self, exit_code):
        super().__init__(exit_code)
        self.exit_code = exit_code


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_step(step, directory):
    """Runs `keras-transformer compare DIRECTORY --step STEP` and returns its exit code.

    What it tells goes to this process' standard error. Signals are passed on to it, and it is
    waited for: a training saves before it ends. Whatever becomes of it then, the exit code is that
    of the signal. It has a session of its own, or Ctrl-C in a terminal would reach it twice.

    Args:
        step: "plan" or "run".
        directory: of the comparison, or of the run.
    """
    process = subprocess.Popen(
        [*command_line(), "compare", str(directory), "--step", step],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    asked = []

    def pass_on(number):
        asked.append(number)
        process.send_signal(number)

    with answered_signals(_SIGNALS, pass_on):
        exit_code = process.wait()
    if asked:
        return 128 + asked[0]
    # Killed by a signal, as by the system when memory is short.
    return exit_code if exit_code >= 0 else 1


ASKED, PLAN = "asked.json", "plan.json"
TABLE, NUMBERS, PICTURE = "comparison.md", "comparison.json", "comparison.png"


def compare(comparison, output, *, say=print, step=run_step):
    """Trains all models with all seeds and compares them; goes on if that was begun already.

    Each run is one training in a directory of its own, `<output>/<model>/seed_<seed>`: one that is
    finished is not repeated, one that was stopped goes on. Models and seeds may be added later.

    Args:
        comparison: the `Comparison`.
        output: the directory; it is made if it is not there. `comparison.md`, `comparison.json` and
            `comparison.png` appear in it at the end.
        say: is called with a line for people who wait.
        step: what does a step, "plan" or "run", in a directory and returns an exit code.

    Returns:
        The `Results`. Runs that failed are not in them.

    Raises:
        ComparisonStopped: if a signal came, or a step cannot be done; it has told why.
        UserError: if something is wrong with the comparison, before anything is trained.
    """
    recipes = comparison.recipes()
    output = _require_output(output)
    fingerprints = data_fingerprints(recipes)
    for seed, model in itertools.product(comparison.seeds, comparison.models):
        RunPlace.of(output, model, seed).require_data(fingerprints)
    plan = _make_plan(comparison, recipes, fingerprints, output, step)
    models = {name: plan["models"][name] for name in comparison.models}
    require_alike(
        {name: entry["parameters"] for name, entry in models.items()},
        {name: entry["width_key"] for name, entry in models.items()},
        is_matched=comparison.match,
    )
    runs = _lay_out(comparison, models, output)
    for number, (model, seed, place) in enumerate(runs, start=1):
        if place.is_finished:
            continue
        say(f"Run {number} of {len(runs)}: {model}, seed {seed}")
        exit_code = step("run", place.path)
        if exit_code == 1:
            say(f"{place.path}: this run has failed, and is left out. The others go on.")
        elif exit_code:
            raise ComparisonStopped(exit_code)
    results = collect_results(comparison, next(iter(recipes.values())), plan, output)
    if not results.standings:
        raise ComparisonStopped(1)
    _write_json(output / NUMBERS, results.to_dictionary())
    with atomic_file(output / TABLE) as file:
        file.write(make_markdown(results, PICTURE))
    with atomic_file(output / PICTURE, "wb") as file:
        file.write(draw_results(results))
    return results


def plan_comparison(output, say=print):
    """The step "plan": writes the plan of what is asked for in a comparison's directory."""
    output = pathlib.Path(output)
    comparison = Comparison.from_dictionary(_read_json(output / ASKED))
    _write_json(output / PLAN, make_plan(comparison, _stored_plan(output), say))


def _make_plan(comparison, recipes, fingerprints, output, step):
    plan = _stored_plan(output)
    if not is_planned(comparison, recipes, fingerprints, plan):
        _write_json(output / ASKED, comparison.to_dictionary())
        exit_code = step("plan", output)
        if exit_code:
            raise ComparisonStopped(exit_code)
        plan = _read_json(output / PLAN)
    return plan


def _lay_out(comparison, models, output):
    """Writes the recipe of each run; returns (model, seed, `RunPlace`) in the order of training.

    Seed by seed: when only a part is done, it is a comparison already.
    """
    runs = []
    recipes = []
    for seed in comparison.seeds:
        for model, entry in models.items():
            steps = [f"training.steps={entry['updates']}", "training.epochs=null"]
            overrides = [*entry["overrides"], *steps, f"seed={seed}"]
            recipes.append(comparison.recipe_of(model, overrides))
            runs.append((model, seed, RunPlace.of(output, model, seed)))
    for (_, _, place), recipe in zip(runs, recipes, strict=True):
        place.require_recipe(recipe)
    for (_, _, place), recipe in zip(runs, recipes, strict=True):
        place.path.mkdir(parents=True, exist_ok=True)
        if not place.recipe.exists():
            with atomic_file(place.recipe) as file:
                file.write(recipe.to_yaml())
    return runs


def _require_output(path):
    path = pathlib.Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be made ({error.strerror}). Name another directory with --output."
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"{path}: permission denied. Name another directory with --output.")
    if any(path.iterdir()) and not (path / ASKED).exists():
        raise UserError(
            f"{path}: holds something that is not a comparison. Name another directory with "
            "--output."
        )
    return path


def _stored_plan(output):
    return _read_json(output / PLAN) if (output / PLAN).exists() else {}


def _read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{path}: damaged ({error}). Remove it, and the same command writes it again."
        ) from error


def _write_json(path, content):
    with atomic_file(path) as file:
        file.write(json.dumps(content, indent=1) + "\n")
