"""A bar that tells a person who waits how many lines are done."""

import contextlib
import sys


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
