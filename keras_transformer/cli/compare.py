"""Trains several models under one budget, and tells which is better at what.

  keras-transformer compare training/compare/recall.yaml
  keras-transformer compare training/compare/recall.yaml --models sinusoidal,rotary --seeds 1,2
  keras-transformer compare quickstart --models transformer,shaw,rotary --seconds 120
  keras-transformer compare my.yaml --models transformer,learned --tokens 2000000 --match

RECIPE is a comparison: a YAML file with a recipe, models that differ from it, a budget and seeds.
Or it is a recipe, of which --models names built-in variants: transformer (as it is), a scheme of
positions (sinusoidal, learned), an attention mechanism (shaw, rotary, alibi, …), or another kind of
model. A name that does not exist is answered with all that do.

All see the same batches, for the same number of tokens or seconds, once with each seed. Parameters
must be within 10 % of the first model's, which is checked before anything is trained; --match makes
models wider or narrower (the feed-forward width where there is one, else the width) until they are.

Each run is a training in a process and a directory of its own, DIR/<model>/seed_<seed>/run. After
Ctrl-C the same command goes on: a finished run is not repeated, and models and seeds can be added.

The table goes to standard output: means and standard deviations over the seeds. DIR holds it as
comparison.md, with all numbers as comparison.json, and learning curves, quality by source length
and, where test sets have distances, by distance as comparison.png. The longest dependency solved is
the greatest distance with at least 90 % exact matches, there and at all shorter ones.

Exit codes: 0 compared, 1 a run failed, 2 a mistake in the files or options, 130, 143 or 129 stopped
by Ctrl-C, SIGTERM or the terminal's end.
"""

import argparse
import logging
import os
import pathlib
import sys

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_output import tell

SUMMARY = "train several models under one budget and compare them"


def add_arguments(parser):
    parser.add_argument(
        "recipe", metavar="RECIPE", help="a comparison or a recipe, both YAML files"
    )
    parser.add_argument("--models", metavar="A,B,C", help="which ones (default: all of the file)")
    parser.add_argument("--seeds", metavar="1,2,3", help="instead of the file's (default: 1,2,3)")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--tokens", type=int, metavar="N", help="target tokens that each model learns from"
    )
    budget.add_argument("--seconds", type=float, metavar="N", help="seconds that each model trains")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="replace a value of the recipe for all models; may be repeated",
    )
    parser.add_argument(
        "--match", action="store_true", help="change widths until all models are of a size"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where all of it goes (default: comparisons/<name>)"
    )
    # For itself: one step in this process; RECIPE is its directory.
    parser.add_argument("--step", choices=("plan", "run"), help=argparse.SUPPRESS)


def run(arguments):
    from keras_transformer._utils.process import prepare_process
    from keras_transformer.cli.main import import_tensorflow_quietly

    prepare_process()
    import_tensorflow_quietly()
    # Otherwise it speaks up when it has no directory of its own, or looks for fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    if arguments.step:
        return run_one_step(arguments.step, arguments.recipe)
    from keras_transformer.analysis.compare.running import ComparisonStopped

    try:
        return print_comparison(arguments)
    except ComparisonStopped as stopped:
        return stopped.exit_code


def print_comparison(arguments):
    """Compares and prints the table; returns the exit code."""
    from keras_transformer.analysis.compare import compare, load_comparison

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
    results = compare(comparison, output, say=tell)
    print_table(results)
    print(f"Saved: {output}/comparison.md, comparison.json and comparison.png")
    return 1 if results.missing else 0


def print_table(results):
    """Prints the table of results to standard output."""
    from rich.console import Console

    from keras_transformer.analysis.compare.report import make_table

    # A terminal of another encoding gets question marks for what it cannot show.
    sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    # Printed in one piece by Python itself: at a closed pipe, rich would end the process with 1.
    with console.capture() as capture:
        console.print(make_table(results))
    print(capture.get())


def split_names(text):
    """The names in `a,b,c`.

    >>> split_names("shaw, rotary")
    ['shaw', 'rotary']
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise UserError(f"--models must be different names, as shaw,rotary; got {text!r}.")
    return names


def split_seeds(text):
    """The numbers in `1,2,3`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UserError(f"--seeds must be whole numbers, as 1,2,3; got {text!r}.") from error


def run_one_step(step, directory):
    """Does a step of a comparison in this process; returns the exit code."""
    from keras_transformer.analysis.compare.running import plan_comparison
    from keras_transformer.cli.train import tell_the_end_of

    if step == "plan":
        plan_comparison(directory, say=tell)
        return 0
    return tell_the_end_of(lambda: measure_with_report(directory))


def measure_with_report(directory):
    """Trains in the directory of a run, with a report on standard error."""
    from keras_transformer.analysis.compare.one_run import measure_run
    from keras_transformer.analysis.compare.run_place import RunPlace
    from keras_transformer.cli.train import spoken_by
    from keras_transformer.trainer.progress import make_report

    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        make_report(sys.stderr, results=nowhere) as report,
        spoken_by(report),
    ):
        measure_run(RunPlace(directory), report)
