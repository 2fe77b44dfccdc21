"""Trains several models under one budget and compares them.

  keras-transformer compare training/compare/recall.yaml
  keras-transformer compare training/compare/recall.yaml --models sinusoidal,rotary --seeds 1,2
  keras-transformer compare quickstart --models transformer,shaw,rotary --seconds 120
  keras-transformer compare my.yaml --models transformer,learned --tokens 2000000 --match

RECIPE is one of two YAML files:
  a comparison   names a recipe, models that differ from it, a budget and seeds
  a recipe       --models then names built-in variants of its model: transformer (the recipe's own
                 model), a position encoding (sinusoidal, learned), an attention mechanism (shaw,
                 rotary, alibi, …) or another kind of model; without --models, an error lists all

All models are trained on the same batches, for the same number of tokens or seconds, once with each
seed. Their numbers of parameters must be within 10 % of the first model's. This is checked before
any training; --match changes the intermediate dimension (or the hidden dimension) until it holds.

Each model and seed is trained in a process of its own, in DIR/<model>/seed_<seed>/run. After
Ctrl-C, the same command resumes. Finished runs are not repeated; models and seeds can be added.

Standard output gets a table of means and standard deviations over the seeds. DIR gets
  comparison.md    the table
  comparison.json  all numbers
  comparison.png   learning curves, quality by source length and, for test sets with distances,
                   quality by distance
The longest dependency solved is the greatest distance such that this and all shorter distances have
at least 90 % exact matches.

Exit codes: 0 success; 1 a run failed; 2 a mistake in the files or options; 130, 143 or 129 stopped
by Ctrl-C, SIGTERM or the closing of the terminal.
"""

import argparse
import io
import pathlib
import sys

from keras_transformer._utils.errors import ArgumentError
from keras_transformer.cli.shared import tell
from keras_transformer.cli.train import add_overrides, messages_in

SUMMARY = "train several models under one budget and compare them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="a comparison or a recipe: a YAML file, or quickstart")
    add("--models", metavar="A,B,C", help="names of models (default: all models of the file)")
    add("--seeds", metavar="1,2,3", help="seeds (default: the file's, or 1,2,3)")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--tokens", type=int, metavar="N", help="target tokens for each model")
    budget.add_argument("--seconds", type=float, metavar="N", help="training time of each model")
    add_overrides(parser, "replace a value of the recipe for all models; may be repeated")
    add("--match", action="store_true", help="change sizes until all models are similar in size")
    add("--output", metavar="DIR", help="directory of the results (default: comparisons/<name>)")
    # For the command itself: one stage in this process; RECIPE is then a directory.
    add("--stage", choices=("plan", "run"), help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Compares, prints the table, and returns the exit code."""
    from keras_transformer._utils.console import print_rendered, shown
    from keras_transformer._utils.process import prepare_process
    from keras_transformer.cli.main import import_tensorflow_quietly

    prepare_process()
    import_tensorflow_quietly()
    if arguments.stage:
        run_stage_here(arguments.stage, arguments.recipe)
        return 0
    from keras_transformer.analysis.compare import ComparisonStopped, compare, load_comparison
    from keras_transformer.analysis.compare.results import draw_table

    comparison = load_comparison(
        arguments.recipe,
        models=arguments.models and split_names(arguments.models),
        seeds=arguments.seeds and split_seeds(arguments.seeds),
        tokens=arguments.tokens,
        seconds=arguments.seconds,
        overrides=arguments.overrides,
        match=arguments.match,
    )
    output = pathlib.Path(arguments.output or pathlib.Path("comparisons", comparison.name))
    try:
        results = compare(comparison, output, report=tell)
    except ComparisonStopped as stopped:
        return stopped.exit_code
    print_rendered(lambda console: draw_table(console, results), plain_width=160)
    place = shown(str(output))
    print(f"\nSaved: {place}/comparison.md, comparison.json and comparison.png")
    return 1 if results.missing else 0


def split_names(text: str) -> list[str]:
    """Returns the names in `a,b,c`.

    >>> split_names("shaw, rotary")
    ['shaw', 'rotary']
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ArgumentError("--models", "different names, such as shaw,rotary", text)
    return names


def split_seeds(text: str) -> list[int]:
    """Returns the seeds in `1,2,3`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ArgumentError("--seeds", "whole numbers, such as 1,2,3", text) from error


def run_stage_here(stage: str, directory: str) -> None:
    """Runs a stage of a comparison in this process and reports on standard error."""
    from keras_transformer.analysis.compare.running import plan_comparison
    from keras_transformer.analysis.compare.runs import ComparedRun, measure_run
    from keras_transformer.trainer.progress import make_report

    if stage == "plan":
        plan_comparison(directory, report=tell)
        return
    # The summary is not shown.
    with make_report(sys.stderr, results=io.StringIO()) as report, messages_in(report):
        measure_run(ComparedRun(directory), report)
