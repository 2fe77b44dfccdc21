"""Trains a model by a recipe: learns the vocabulary, trains, evaluates, exports.

  keras-transformer train quickstart
  keras-transformer train training/recipes/multi30k_en_de.yaml
  keras-transformer train my.yaml --set training.steps=2000 --set model.dropout=0.3
  keras-transformer train my.yaml --run runs/second_try
  keras-transformer train my.yaml --dry-run

A recipe is a YAML file, or the name of one that comes with the package (quickstart). It is checked
whole before any work starts; each --set replaces one of its values. --dry-run builds everything,
makes two updates and leaves nothing behind.

All that belongs to a run is in its directory: the recipe as it was understood, vocabulary, token
cache, checkpoints, TensorBoard's logs, metrics as JSON lines and, unless the recipe sends it
elsewhere, the export. Watch it with `tensorboard --logdir DIR`. The progress goes to standard
error, the summary to standard output.

Nothing is lost: Ctrl-C, SIGTERM or a closed terminal end the training after the update under way,
when all is saved; a second Ctrl-C ends it at once. Whatever has ended it, the same command goes on
from the last checkpoint, and the result is the same as without the break. A run directory whose
recipe is another one is refused, and the difference shown.

Exit codes: 0 trained, 1 failed (a loss that is not finite, a full disk), 2 a mistake in the recipe
or the files, 130, 143 or 129 stopped by Ctrl-C, SIGTERM or the terminal's end.
"""

import contextlib
import logging
import pathlib
import sys
import warnings

from keras_transformer.cli.text_output import tell

SUMMARY = "train a model by a recipe"


def add_arguments(parser):
    parser.add_argument("recipe", metavar="RECIPE", help="a YAML file, or quickstart")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="replace a value of the recipe, such as training.steps=2000; may be repeated",
    )
    parser.add_argument(
        "--run",
        metavar="DIR",
        dest="run_directory",
        help="the directory of the run (default: runs/<name of the recipe>)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="build everything, make two updates, keep nothing"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="resume although the recipe has changed, where that can be done",
    )


def run(arguments):
    from keras_transformer._utils.process import prepare_process
    from keras_transformer.cli.main import import_tensorflow_quietly

    prepare_process()
    import_tensorflow_quietly()
    return tell_the_end_of(lambda: train_by_recipe(arguments))


def tell_the_end_of(training):
    """Runs a training, tells how it has ended if that is not well, and returns the exit code."""
    from keras_transformer.trainer.signals import StopSignal, TrainingFailed, TrainingStopped

    try:
        training()
    except StopSignal:
        tell("Stopped where nothing is lost. The same command goes on from there.")
        raise
    except TrainingStopped as stopped:
        tell(stopped)
        # All is saved. Python's own end would wait for threads, and have libraries complain.
        raise StopSignal(stopped.exit_code - 128) from stopped
    except TrainingFailed as error:
        tell(f"keras-transformer: {error}")
        return 1
    return 0


def train_by_recipe(arguments):
    """Reads the recipe and trains, with a report on the standard streams."""
    from keras_transformer import trainer
    from keras_transformer.trainer.progress import make_report
    from keras_transformer.trainer.recipes import load_recipe

    recipe = load_recipe(arguments.recipe, arguments.overrides)
    run_directory = arguments.run_directory or pathlib.Path("runs", recipe.name)
    with make_report(sys.stderr, results=sys.stdout) as report, spoken_by(report):
        trainer.train(
            recipe,
            run_directory,
            dry_run=arguments.dry_run,
            force=arguments.force,
            report=report,
        )


@contextlib.contextmanager
def spoken_by(report):
    """Inside, the package's warnings and log records are said by a report.

    They would otherwise be written across the bar, with file names that mean nothing to the user.
    Those of TensorFlow, Keras and others are left out.
    """
    for name in ("tensorflow", "absl", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logger = logging.getLogger("keras_transformer")
    handler = SayingHandler(report)
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


class SayingHandler(logging.Handler):
    """Has log records said by a report."""

    def __init__(self, report):
        super().__init__()
        self._report = report

    def emit(self, record):
        self._report.say(record.getMessage())
