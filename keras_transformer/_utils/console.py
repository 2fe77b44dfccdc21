"""Console output: text that is safe to print, and tables made with rich."""

import io
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def shown(text: str) -> str:
    r"""Returns `text` with escapes for characters that move the cursor or color the terminal.

    >>> shown("one\ttwo \x1b[31mred")
    'one\\ttwo \\x1b[31mred'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def render(
    draw: Callable[["Console"], object], stream: TextIO | None = None, *, plain_width: int = 100
) -> str:
    """Returns what a function prints on a rich console, without spaces at the ends of lines.

    The stream, by default standard output, determines colors and width; `plain_width` is that of
    files and pipes. The caller prints the result in one piece: when the reader closes the pipe,
    Python then raises `BrokenPipeError`, where rich would end the process with exit code 1.

    >>> render(lambda console: console.print("one", "two"))
    'one two\\n'
    """
    from rich.console import Console

    output = stream or sys.stdout
    width = None if output.isatty() else plain_width
    console = Console(file=output, highlight=False, width=width)
    with console.capture() as capture:
        draw(console)
    return "\n".join(line.rstrip(" ") for line in capture.get().split("\n"))


def print_rendered(draw: Callable[["Console"], object], *, plain_width: int = 100) -> None:
    """Prints on standard output what a function prints on a rich console."""
    # A terminal with another encoding shows question marks for characters that it lacks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    print(render(draw, plain_width=plain_width), end="")


def is_plain(console: "Console") -> bool:
    """Returns whether the console is a file, a pipe or a terminal without cursor control."""
    return not console.is_terminal or console.is_dumb_terminal


def print_table(
    console: "Console",
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Iterable[int] = (),
) -> None:
    """Prints a table: with rules on a terminal, as plain columns elsewhere.

    Control characters are escaped. The columns with the indices `right` are aligned to the right.

    >>> print(render(lambda console: print_table(console, ["name", "size"], [["tiny", "4"]])))
    name size
    tiny 4
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    plain, aligned = is_plain(console), set(right)
    border = None if plain else box.ROUNDED
    table = Table(box=border, pad_edge=not plain, show_header=any(headings))
    for number, heading in enumerate(headings):
        justify = "right" if number in aligned else "left"
        table.add_column(heading, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    if title is not None:
        console.print(Text(shown(title), style="bold"))
    console.print(table)
