"""A bar that tells a person who waits how many lines are done."""

import contextlib
import sys

from keras_transformer._utils.checks import require_integer
from keras_transformer._utils.errors import UserError

_OPTIONS = {
    "beams": (int, "N", "hypotheses side by side; 1 is greedy (default: 4)"),
    "length_penalty": (float, "A", "the larger, the longer the texts (default: 0.6)"),
    "coverage_penalty": (float, "B", "against leaving parts of the source out (default: 0)"),
    "max_length": (
        int,
        "N",
        "tokens at most (default: the model's; a language model's: 256, or half)",
    ),
    "max_length_ratio": (float, "R", "and at most R times the source's tokens … (default: 1)"),
    "max_length_margin": (int, "N", "… and N more (default: 50)"),
    "min_length": (int, "N", "tokens at least (default: 1)"),
    "min_length_ratio": (float, "R", "and at least R times the source's (default: 0)"),
    "no_repeat_ngram": (int, "N", "no N tokens in a row come twice (default: no such rule)"),
    "repetition_penalty": (float, "F", "at least 1: makes old tokens less likely (default: 1)"),
}


def add_search_options(parser):
    """Adds an option for each field of `SearchSettings`."""
    group = parser.add_argument_group(
        "search",
        "A run searches as its recipe says, and an export as it was told when it was made. The "
        "defaults are those of a run without a recipe.",
    )
    for name, (kind, letter, text) in _OPTIONS.items():
        group.add_argument("--" + name.replace("_", "-"), type=kind, metavar=letter, help=text)


def search_settings(arguments):
    """The fields of `SearchSettings` that were given, as a dictionary."""
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    return {name: value for name, value in given.items() if value is not None}


def add_model_argument(parser):
    parser.add_argument("model", metavar="MODEL", help="a run directory or an export")


def add_line_arguments(parser):
    """Adds how lines are read, and how many the model is given."""
    lines = parser.add_argument_group("lines")
    lines.add_argument(
        "--encoding-errors",
        choices=("error", "replace"),
        default="error",
        help="what to do with bytes that are not UTF-8 (default: %(default)s)",
    )
    lines.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="lines given to the model at once, at most (default: 1024)",
    )


def require_whole_numbers(arguments, minimum, *names):
    """Raises a `UserError` if one of the arguments is given and below `minimum`."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None:
            try:
                require_integer("--" + name.replace("_", "-"), value, minimum)
            except ValueError as error:
                raise UserError(str(error)) from error


def run_with_tensorflow(function, arguments):
    """Calls `function(arguments)` when TensorFlow is there; messages call arguments options."""
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    from keras_transformer.cli.data import with_options

    try:
        function(arguments)
    except UserError as error:
        raise UserError(with_options(str(error), arguments)) from error


def open_model(path, **search_settings):
    """Opens a text model; settings that its search cannot have are a mistake of the user's."""
    from keras_transformer.export import open_text_model

    if not search_settings:
        return open_text_model(path)
    try:
        return open_text_model(path, **search_settings)
    except ValueError as error:
        raise UserError(str(error)) from error


def note_replaced(lines):
    """Tells how much of what a `LineReader` has read was no UTF-8, if anything was."""
    if lines.replaced:
        print(
            f"{lines.name}: {lines.replaced:,} byte sequences were not UTF-8 and became U+FFFD.",
            file=sys.stderr,
        )


@contextlib.contextmanager
def line_progress(what, total, output):
    """Yields a function to be called with the number of lines that have been done meanwhile.

    The bar is drawn on standard error, if that is a terminal on which nothing else is written.

    Args:
        what: is being done.
        total: The number of lines, or None if nobody knows.
        output: The file to which results go; None for standard output.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    is_shared = output is None and sys.stdout.isatty()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        # Otherwise what is printed on standard output would go where the bar is.
        redirect_stdout=False,
        redirect_stderr=False,
        disable=is_shared or not console.is_terminal or console.is_dumb_terminal,
    )
    with progress:
        task = progress.add_task(what, total=total)
        yield lambda lines: progress.advance(task, lines)
