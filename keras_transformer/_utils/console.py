"""Console output: text that is safe to print, and tables made with rich."""

import io
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


# Invisible characters that scripts and emoji need and that cannot hide or reorder other text: the
# zero-width non-joiner and joiner, and the signs that span Arabic, Syriac and Kaithi numbers.
_NEEDED = frozenset(
    "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\U000110bd\U000110cd"
)


def shown(text: str, keep: str = "", *, as_json: bool = False) -> str:
    r"""Returns `text` with visible escapes for characters that can deceive a reader or a terminal.

    These are the control characters, among them line breaks, the separators U+2028 and U+2029,
    marks that change the direction of text, other invisible characters, lone surrogates, and
    characters that Unicode has not assigned. Spaces of all kinds stay, and so do joiners.

    Args:
        text: Any text.
        keep: Characters that stay as they are. Default: none.
        as_json: Whether `text` is JSON, which stays valid: all escapes have the form `\u001b`.

    >>> shown("one\ttwo \x1b[31mred")
    'one\\ttwo \\x1b[31mred'
    >>> shown('["\x9b"]', as_json=True)
    '["\\u009b"]'
    """
    if text.isprintable():
        return text
    escape = _json_escape if as_json else _escape
    return "".join(
        letter if letter in keep or _is_harmless(letter) else escape(letter) for letter in text
    )


def _is_harmless(letter: str) -> bool:
    return letter.isprintable() or letter in _NEEDED or unicodedata.category(letter) == "Zs"


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _json_escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def for_stream(text: str, stream: TextIO, *, as_json: bool = False) -> str:
    """Returns `text` as it is for a file or a pipe, and as `shown` for a terminal.

    Tabs and line feeds stay, because the program writes them: replace those in foreign text first.
    """
    return shown(text, keep="\n\t", as_json=as_json) if stream.isatty() else text


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
        table.add_column(Text(shown(heading)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    if title is not None:
        console.print(Text(shown(title), style="bold"))
    console.print(table)
