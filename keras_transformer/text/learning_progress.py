"""What a person sees while a vocabulary is learned."""

import contextlib
import sys


@contextlib.contextmanager
def learning_progress(title):
    """Yields a callable `report(stage, done, total)` that shows how far the learning is.

    It writes to standard error. On a terminal a line moves, and vanishes at the end. Elsewhere (a
    file, a pipe, a dumb terminal) there is one plain line, `title`.

    Args:
        title: What is being done, e.g. "Learning a sentencepiece vocabulary of 8000".
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        print(title, file=sys.stderr, flush=True)
        yield lambda stage, done, total: None
        return

    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(stage, done, total):
            bar.update(task, description=f"{title}: {stage}", completed=done, total=total)

        yield report
