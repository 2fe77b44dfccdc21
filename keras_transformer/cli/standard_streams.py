"""Standard streams that are closed, or that nobody reads: neither may change an exit code."""

import contextlib
import os
import sys


def open_closed_streams():
    """Gives the null device to standard streams that were closed when Python started.

    Their numbers would otherwise go to the next files that are opened, and what is meant for
    standard error would be written there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def tell(text):
    """Writes a line to standard error, if anybody reads it."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def forget(stream):
    """Sends to the null device what Python would fail to write at its end, with a complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
