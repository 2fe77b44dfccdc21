"""Shared parts of the commands: options, models, progress bars, standard streams and files."""

import argparse
import contextlib
import dataclasses
import io
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from keras_transformer._utils.checks import require_integer
from keras_transformer._utils.console import for_stream, shown
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.types import Path
from keras_transformer.decoding import SearchSettings

if TYPE_CHECKING:
    from keras_transformer.inference import LineReader, TextModel

_SPACES = str.maketrans(dict.fromkeys("\t\n\r", " "))


_API_KEY_VARIABLE = "KERAS_TRANSFORMER_API_KEY"
API_KEY_HELP = f"file whose first line is the API key (default: the variable {_API_KEY_VARIABLE})"


def token_ids(text: str) -> tuple[int, ...]:
    """Returns the ids in `1,5,7`."""
    return tuple(int(part) for part in text.split(","))


# Parser and placeholder of an option by the type of a field of `SearchSettings`.
_OPTION_TYPES: dict[Any, tuple[Callable[[str], Any], str]] = {
    str: (str, "NAME"),
    int: (int, "N"),
    int | None: (int, "N"),
    float: (float, "X"),
    float | None: (float, "X"),
    tuple[int, ...]: (token_ids, "N,N"),
}


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each field of `SearchSettings`."""
    group = parser.add_argument_group(
        "search",
        "The search of a run is set by its recipe, and the search of an export when it is written. "
        "The defaults are those of a run without a recipe.",
    )
    descriptions = SearchSettings.descriptions()
    for field in dataclasses.fields(SearchSettings):
        if field.type not in _OPTION_TYPES:
            known = ", ".join(str(getattr(kind, "__name__", kind)) for kind in _OPTION_TYPES)
            raise ArgumentError(field.name, f"of a type with an option: {known}", field.type)
        kind, placeholder = _OPTION_TYPES[field.type]
        text = descriptions[field.name]
        group.add_argument(option_of(field.name), type=kind, metavar=placeholder, help=text)


def search_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of `SearchSettings` that were given."""
    names = [field.name for field in dataclasses.fields(SearchSettings)]
    given = {name: getattr(arguments, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL, and the options for reading lines and for the size of batches."""
    parser.add_argument("model", metavar="MODEL", help="a run directory or an export")
    key = "accept the model only if one of the public keys in FILE has signed it; see `sign`"
    parser.add_argument("--key", metavar="FILE", help=key)
    add = parser.add_argument_group("lines").add_argument
    errors = "treatment of bytes that are not UTF-8 (default: %(default)s)"
    add("--encoding-errors", choices=("error", "replace"), default="error", help=errors)
    size = "maximum number of lines given to the model at once (default: 1024)"
    add("--batch-size", type=int, metavar="N", help=size)


def read_api_key(path: Path | None) -> str | None:
    """Returns the API key of a server: the first line of a file, or that of the environment."""
    if path is None:
        return os.environ.get(_API_KEY_VARIABLE) or None
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read ({error}).", where=path) from error
    if not lines or not lines[0].strip():
        raise UserError("the first line is empty; it must be the API key.", where=path)
    return lines[0].strip()


def option_of(name: str) -> str:
    """Returns the option of an argument, such as "--max-length" of "max_length"."""
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
    try:
        return function(arguments)
    except UserError as error:
        raise error.renamed({name: option_of(name) for name in vars(arguments)}) from error
    except Exception as error:
        # TensorFlow's error about memory; that of a full disk is reported where files are written.
        if not isinstance(error, MemoryError) and "OOM when allocating" not in str(error):
            raise
        fix = "Use a smaller model, smaller batches, shorter texts or fewer beams."
        raise OSError(f"out of memory. {fix}") from error


def open_model(arguments: argparse.Namespace) -> "TextModel":
    """Opens MODEL with the given search settings, all of which the command must read."""
    from keras_transformer.inference import load

    settings = search_settings(arguments)
    SearchSettings(**settings)
    text_model = load(arguments.model, arguments.key)
    searching = text_model.with_search(**settings)
    text_model.require_used(settings, getattr(arguments, "temperature", None))
    return searching


def note_replaced(lines: "LineReader") -> None:
    """Reports how many byte sequences of a `LineReader` were not UTF-8, if there were any."""
    if lines.replaced:
        count = f"{lines.replaced:,} byte sequences were not UTF-8 and became U+FFFD."
        tell(f"{shown(lines.name)}: {count}")


@contextlib.contextmanager
def line_progress(
    task: str, total: int | None, output: object | None
) -> Iterator[Callable[[int], None]]:
    """Yields a function that advances a progress bar by a number of lines.

    The bar is drawn on standard error, if that is a terminal on which nothing else is written. It
    shows the time left, or the time elapsed if the total is unknown.

    Args:
        task: Description of the work.
        total: Number of lines, or None if it is unknown.
        output: File to which results are written; None for standard output.
    """
    from rich import progress as bars
    from rich.console import Console

    from keras_transformer._utils.progress import TimeLeftColumn

    console = Console(stderr=True)
    is_shared = output is None and sys.stdout.isatty()
    progress = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn() if total is None else TimeLeftColumn(),
        bars.TextColumn("elapsed" if total is None else "left"),
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


def open_closed_streams() -> None:
    """Connects standard streams that were closed when Python started to the null device.

    Otherwise the next files that are opened get their numbers, and what is meant for standard error
    would be written into them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def tell(text: object) -> None:
    """Writes a message to standard error, escaped except for its line feeds.

    Errors in writing are ignored.
    """
    with contextlib.suppress(OSError):
        print(shown(str(text), keep="\n"), file=sys.stderr, flush=True)


def forget(stream: TextIO) -> None:
    """Connects a stream to the null device, so that Python's final flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def require_output_file(
    option: str, path: Path, others: Iterable[Path | None] = ()
) -> pathlib.Path:
    """Returns the absolute path of a file that can be written; an existing file will be replaced.

    Args:
        option: Name of the option, for messages.
        path: Path of the file.
        others: Other files of the command, from which it must differ; None for missing ones.
    """
    # The target of a link is replaced, not the link.
    resolved = pathlib.Path(os.path.realpath(path))
    taken = [os.path.realpath(other) for other in others if other is not None]
    fix = f"Name another file with {option}."
    if resolved.is_dir():
        problem, fix = "is a directory.", f"Name a file in it with {option}."
    elif resolved.exists() and not resolved.is_file():
        problem = "is not a regular file."
        fix = f"Name one with {option}, or redirect standard output."
    elif not resolved.parent.is_dir():
        problem, fix = f"there is no directory {resolved.parent}.", "Create it first."
    elif not os.access(resolved.parent, os.W_OK | os.X_OK):
        problem = f"permission denied in {resolved.parent}."
    elif str(resolved) in taken:
        problem = "is already read or written."
    else:
        return resolved
    raise UserError(problem, where=path, fix=fix)


@contextlib.contextmanager
def open_output(path: Path | None, *, is_json: bool = False) -> Iterator[Callable[[str], object]]:
    """Yields a function that writes strings, in UTF-8, to a file, or to standard output if None.

    Standard output is flushed after each string; if it is a terminal, control characters are
    escaped, in JSON if `is_json` says so. A file appears when the block ends without an error.
    """
    if path is not None:
        with atomic_file(path) as file:
            yield file.write
        return
    # The output is UTF-8 like the input; the locale has no effect.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")

    def write(text: str) -> None:
        sys.stdout.write(for_stream(text, sys.stdout, as_json=is_json))
        sys.stdout.flush()

    yield write


def one_line(text: str) -> str:
    """Returns a text with spaces in place of tabs and line breaks.

    >>> one_line("one\\n\\ttwo")
    'one  two'
    """
    return text.translate(_SPACES)
