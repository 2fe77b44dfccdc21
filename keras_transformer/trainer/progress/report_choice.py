"""Which report suits a stream."""

import os

from keras_transformer.trainer.progress.plain_report import PlainReport
from keras_transformer.trainer.progress.terminal_report import TerminalReport


def make_report(stream, results=None):
    """Returns a `TerminalReport` for a terminal that can move its cursor, else a `PlainReport`.

    >>> import io
    >>> type(make_report(io.StringIO())).__name__
    'PlainReport'

    Args:
        stream: where the progress is shown, for example `sys.stderr`.
        results: where the summary goes at the end; the same stream if it is None.
    """
    is_dumb = os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown")
    kind = TerminalReport if stream.isatty() and not is_dumb else PlainReport
    return kind(stream, results)
