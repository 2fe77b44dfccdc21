"""Trains a model by a recipe: learns the vocabulary, trains, evaluates, exports.

  keras-transformer train quickstart
  keras-transformer train training/recipes/multi30k_en_de.yaml
  keras-transformer train my.yaml --set training.steps=2000 --set model.dropout=0.3
  keras-transformer train my.yaml --run runs/second_try
  keras-transformer train my.yaml --dry-run

RECIPE is a YAML file, or quickstart, the recipe that comes with the package. The whole recipe is
checked before training starts. Each --set replaces one of its values.

The run directory contains the recipe with all defaults, the vocabulary, the token cache,
checkpoints, TensorBoard logs, metrics as JSON lines and, unless the recipe names another directory,
the export. `tensorboard --logdir DIR` shows the logs. Progress is written to standard error, the
summary to standard output.

Ctrl-C, SIGTERM or closing the terminal stops the training after the current step and saves a
checkpoint; a second Ctrl-C stops at once. The same command resumes from the last checkpoint, with
the same result as without the interruption. If the recipe has changed since, the command shows the
differences and stops.

Exit codes: 0 success; 1 failure (a loss that is not finite, a full disk); 2 a mistake in the recipe
or the files; 130, 143 or 129 stopped by Ctrl-C, SIGTERM or the closing of the terminal.
"""

import argparse
import contextlib
import logging
import pathlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_transformer.trainer.progress import TrainingReport

SUMMARY = "train a model by a recipe"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="a YAML file, or quickstart")
    add_overrides(
        parser, "replace a value of the recipe, such as training.steps=2000; may be repeated"
    )
    directory = "directory of the run (default: runs/<name of the recipe>)"
    add("--run", dest="directory", metavar="DIR", help=directory)
    add("--dry-run", action="store_true", help="build everything, train two steps, keep nothing")
    force = "resume with the changed recipe, if the changed values may change during a run"
    add("--force", action="store_true", help=force)


def add_overrides(parser: argparse.ArgumentParser, text: str) -> None:
    """Adds the option `--set` with a help text; it appends to `overrides`."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=text
    )


def run(arguments: argparse.Namespace) -> None:
    """Trains by the recipe, and reports on the standard streams."""
    from keras_transformer._utils.process import prepare_process
    from keras_transformer.cli.main import import_tensorflow_quietly
    from keras_transformer.trainer.recipes import make_recipe, read_recipe_file

    # The file is read before TensorFlow is imported, which takes seconds.
    file = read_recipe_file(arguments.recipe)
    prepare_process()
    import_tensorflow_quietly()
    from keras_transformer import trainer
    from keras_transformer.trainer.progress import make_report

    recipe = make_recipe(file, arguments.overrides)
    directory = arguments.directory or pathlib.Path("runs", recipe.name)
    with make_report(sys.stderr, results=sys.stdout) as report, messages_in(report):
        trainer.train(
            recipe, directory, report=report, dry_run=arguments.dry_run, force=arguments.force
        )


@contextlib.contextmanager
def messages_in(report: "TrainingReport") -> Iterator[None]:
    """Shows the package's warnings and log records in a report, inside the block.

    Otherwise they would be written across the progress bar, with names of source files. Messages of
    TensorFlow, Keras and other packages are left out.
    """
    for name in ("tensorflow", "absl", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)
    handler = logging.Handler()
    handler.emit = lambda record: report.say(record.getMessage())
    logger = logging.getLogger("keras_transformer")
    logger.addHandler(handler)
    old = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("default", module=r"keras_transformer\.")
            warnings.showwarning = lambda message, *_, **__: report.say(str(message))
            yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = old
