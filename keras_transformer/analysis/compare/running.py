"""Execution of a comparison: plan, runs in processes of their own, table and picture."""

import dataclasses
import itertools
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import Literal

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.process import answered_signals, command_line
from keras_transformer._utils.types import Path
from keras_transformer.analysis.compare.comparison import Comparison
from keras_transformer.analysis.compare.planning import (
    PlannedModel,
    data_fingerprints,
    make_plan,
    require_alike,
    stored_models,
    unplanned_models,
)
from keras_transformer.analysis.compare.results import (
    Results,
    collect_results,
    draw_results,
    make_markdown,
)
from keras_transformer.analysis.compare.runs import ComparedRun, read_json, write_json
from keras_transformer.trainer.recipe_file import Override

#: A part of a comparison that runs in a process of its own: the plan, or one run.
Stage = Literal["plan", "run"]
#: Function that does a stage in a directory and returns an exit code.
StageFunction = Callable[[Stage, pathlib.Path], int]


class ComparisonStopped(Exception):  # noqa: N818
    """A stage has ended without success and has reported why; everything else is kept.

    Args:
        exit_code: That of the stage: 2 a mistake; 130, 143 or 129 a signal; 1 another failure.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code: int = exit_code


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_stage(stage: Stage, directory: pathlib.Path) -> int:
    """Runs `keras-transformer compare DIRECTORY --stage STAGE` and returns its exit code.

    Signals are passed on to the process, and this function waits for its end, because a training
    saves before it ends. After a signal, the exit code is that of the signal. The process has a
    session of its own; otherwise Ctrl-C in a terminal would reach it twice.
    """
    process = subprocess.Popen(
        [*command_line(), "compare", str(directory), "--stage", stage],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    received = []

    def pass_on(number: int) -> None:
        received.append(number)
        process.send_signal(number)

    with answered_signals(_SIGNALS, pass_on):
        exit_code = process.wait()
    if received:
        return 128 + received[0]
    # Negative if a signal killed it, for example when the system was short of memory.
    return exit_code if exit_code >= 0 else 1


ASKED, PLAN = "asked.json", "plan.json"
TABLE, NUMBERS, PICTURE = "comparison.md", "comparison.json", "comparison.png"


def compare(
    comparison: Comparison,
    output: Path,
    *,
    report: Callable[[str], object] = print,
    run_stage: StageFunction = run_stage,
) -> Results:
    """Trains all models with all seeds, or resumes their training, and compares them.

    Each run is a training in a directory of its own, `<output>/<model>/seed_<seed>`. Finished runs
    are not repeated, and interrupted runs are resumed. Models and seeds can be added later. The
    results do not include runs that failed.

    Args:
        comparison: The comparison.
        output: Directory of all files. At the end it gets `comparison.md`, `.json` and `.png`.
        report: Called with a line about the progress.
        run_stage: Function that does a stage. Default: in a process of its own.

    Raises:
        ComparisonStopped: If a signal came, or a stage failed.
        UserError: If something is wrong with the comparison, before any training.
    """
    recipes = comparison.recipes()
    output = _require_output(output)
    fingerprints = data_fingerprints(recipes)
    for seed, model in itertools.product(comparison.seeds, comparison.models):
        ComparedRun.of(output, model, seed).require_data(fingerprints)
    plan = read_json(output / PLAN)
    stored = stored_models(comparison, recipes, fingerprints, plan)
    if any(unplanned_models(comparison, stored)):
        write_json(output / ASKED, comparison.to_dictionary())
        if exit_code := run_stage("plan", output):
            raise ComparisonStopped(exit_code)
        plan = read_json(output / PLAN)
    models = {name: plan["models"][name] for name in comparison.models}
    require_alike(models, is_matched=comparison.match)
    runs = _write_recipes(comparison, models, output)
    for number, (model, seed, run) in enumerate(runs, start=1):
        if run.measured.exists():
            continue
        report(f"Run {number} of {len(runs)}: {model}, seed {seed}")
        exit_code = run_stage("run", run.path)
        if exit_code == 1:
            place = shown(str(run.path))
            report(f"{place}: this run has failed and is left out. The other runs continue.")
        elif exit_code:
            raise ComparisonStopped(exit_code)
    results = collect_results(comparison, next(iter(recipes.values())), plan, output)
    if not results.models:
        raise ComparisonStopped(1)
    write_json(output / NUMBERS, dataclasses.asdict(results))
    with atomic_file(output / TABLE) as file:
        file.write(make_markdown(results, PICTURE))
    with atomic_file(output / PICTURE, "wb") as file:
        file.write(draw_results(results))
    return results


def plan_comparison(output: Path, report: Callable[[str], object] = print) -> None:
    """Runs the stage "plan": writes the plan of the comparison in a directory."""
    output = pathlib.Path(output)
    comparison = Comparison(**read_json(output / ASKED))
    write_json(output / PLAN, make_plan(comparison, read_json(output / PLAN), report))


def _write_recipes(
    comparison: Comparison, models: Mapping[str, PlannedModel], output: pathlib.Path
) -> list[tuple[str, int, ComparedRun]]:
    """Writes the recipe of each run; returns model, seed and run in the order of training."""
    place = f"The budget of {comparison.name}"
    runs, recipes = [], []
    # All models with the first seed come first, so that they are compared early.
    for seed, (model, entry) in itertools.product(comparison.seeds, models.items()):
        overrides = [
            *entry["overrides"],
            Override("training.steps", entry["steps"], place),
            Override("training.epochs", None, place),
            Override("seed", seed, place),
        ]
        run, recipe = ComparedRun.of(output, model, seed), comparison.recipe_of(model, overrides)
        run.require_recipe(recipe)
        runs.append((model, seed, run))
        recipes.append(recipe)
    for (_, _, run), recipe in zip(runs, recipes, strict=True):  # when all are known to fit
        run.path.mkdir(parents=True, exist_ok=True)
        if not run.recipe_file.exists():
            with atomic_file(run.recipe_file) as file:
                file.write(recipe.to_yaml())
    return runs


def _require_output(path: Path) -> pathlib.Path:
    path = pathlib.Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot be created ({error.strerror})."
    else:
        if not os.access(path, os.W_OK | os.X_OK):
            problem = "permission denied."
        elif not any(path.iterdir()) or (path / ASKED).exists():
            return path
        else:
            problem = "this directory has other contents than a comparison."
    raise UserError(problem, where=path, fix="Choose another directory with --output.")
