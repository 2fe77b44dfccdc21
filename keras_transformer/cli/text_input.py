"""Options and helpers of the verbs that run a text model."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import require_integer
from keras_transformer._utils.errors import UserError

if TYPE_CHECKING:
    from keras_transformer.inference import LineReader, TextModel

# Fields of `SearchSettings`: type, placeholder and help of their options.
_SEARCH_OPTIONS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "method": (str, "NAME", "registered search (default: beam)"),
    "beams": (int, "N", "hypotheses that are followed at once; 1 is greedy search (default: 4)"),
    "length_penalty": (float, "A", "larger values prefer longer texts (default: 0.6)"),
    "coverage_penalty": (float, "B", "penalty for ignored parts of the source (default: 0)"),
    "max_length": (
        int,
        "N",
        "maximum number of tokens (default: the model's; a language model's: 256, or half of it)",
    ),
    "max_length_ratio": (float, "R", "maximum relative to the source's tokens … (default: 1)"),
    "max_length_margin": (int, "N", "… and tokens added to it (default: 50)"),
    "min_length": (int, "N", "minimum number of tokens (default: 1)"),
    "min_length_ratio": (float, "R", "minimum relative to the source's tokens (default: 0)"),
    "no_repeat_ngram": (int, "N", "no sequence of N tokens occurs twice (default: no limit)"),
    "repetition_penalty": (float, "F", "at least 1: penalty for repeated tokens (default: 1)"),
    "top_k": (int, "K", "sampling draws among the K most likely tokens (default: all)"),
    "top_p": (float, "P", "sampling draws among the tokens with total probability P (default: 1)"),
}


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each field of `SearchSettings`."""
    group = parser.add_argument_group(
        "search",
        "The search of a run is set by its recipe, and the search of an export when it is written. "
        "The defaults are those of a run without a recipe.",
    )
    for name, (kind, letter, text) in _SEARCH_OPTIONS.items():
        group.add_argument(option_of(name), type=kind, metavar=letter, help=text)


def search_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of `SearchSettings` that were given."""
    given = {name: getattr(arguments, name) for name in _SEARCH_OPTIONS}
    return {name: value for name, value in given.items() if value is not None}


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the positional argument MODEL."""
    parser.add_argument("model", metavar="MODEL", help="a run directory or an export")


def add_line_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options for reading lines and for the size of batches."""
    lines = parser.add_argument_group("lines")
    lines.add_argument(
        "--encoding-errors",
        choices=("error", "replace"),
        default="error",
        help="treatment of bytes that are not UTF-8 (default: %(default)s)",
    )
    lines.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="maximum number of lines given to the model at once (default: 1024)",
    )


def option_of(name: str) -> str:
    """Returns the option of an argument.

    >>> option_of("max_length")
    '--max-length'
    """
    return "--" + name.replace("_", "-")


def require_whole_numbers(arguments: argparse.Namespace, minimum: int, *names: str) -> None:
    """Raises a `UserError` if one of the arguments is given and below `minimum`."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None:
            require_integer(option_of(name), value, minimum)


def run_with_tensorflow(
    function: Callable[[argparse.Namespace], int | None], arguments: argparse.Namespace
) -> int | None:
    """Imports TensorFlow and calls `function(arguments)`; errors name options, not arguments."""
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    with named_options(arguments):
        return function(arguments)


@contextlib.contextmanager
def named_options(arguments: argparse.Namespace) -> Iterator[None]:
    """Renames the arguments of a `UserError` inside the block to the options of the command."""
    try:
        yield
    except UserError as error:
        raise error.renamed({name: option_of(name) for name in vars(arguments)}) from error


def open_model(path: str, **search_settings: Any) -> "TextModel":
    """Opens a run directory or an export.

    Args:
        path: of the model.
        **search_settings: fields of `SearchSettings`, for a run. They are checked first.
    """
    from keras_transformer.decoding import SearchSettings
    from keras_transformer.inference import load

    SearchSettings(**search_settings)
    return load(path).with_search(**search_settings)


def note_replaced(lines: "LineReader") -> None:
    """Reports how many byte sequences of a `LineReader` were not UTF-8, if there were any."""
    if lines.replaced:
        print(
            f"{lines.name}: {lines.replaced:,} byte sequences were not UTF-8 and became U+FFFD.",
            file=sys.stderr,
        )


@contextlib.contextmanager
def line_progress(
    task: str, total: int | None, output: object | None
) -> Iterator[Callable[[int], None]]:
    """Yields a function that advances a progress bar by a number of lines.

    The bar is drawn on standard error, if that is a terminal on which nothing else is written.

    Args:
        task: description of the work.
        total: number of lines, or None if it is unknown.
        output: file to which results are written; None for standard output.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    from keras_transformer._utils.progress import TimeLeftColumn

    console = Console(stderr=True)
    is_shared = output is None and sys.stdout.isatty()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeLeftColumn(),
        console=console,
        transient=True,
        # With redirection, standard output would be printed where the bar is.
        redirect_stdout=False,
        redirect_stderr=False,
        disable=is_shared or not console.is_terminal or console.is_dumb_terminal,
    )
    with progress:
        number = progress.add_task(task, total=total)
        yield lambda lines: progress.advance(number, lines)
