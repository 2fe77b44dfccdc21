"""One writer of events for each directory.

TensorBoard reads the event files of a directory one after the other and never goes back, so what
several callbacks write into one directory must be in one file.
"""

import os

import tensorflow as tf

# A reader sees what is written after so many milliseconds at the latest, once more is written.
_FLUSH_MILLISECONDS = 10_000
_WRITERS = {}


def event_writer(directory):
    """Returns the `tf.summary.SummaryWriter` of a directory, the same one for all who ask.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> event_writer(directory) is event_writer(directory + "/.")
    True
    >>> close_all()
    """
    place = os.path.realpath(directory)
    if place not in _WRITERS:
        _WRITERS[place] = tf.summary.create_file_writer(place, flush_millis=_FLUSH_MILLISECONDS)
    return _WRITERS[place]


def flush_all():
    """Brings everything written so far to disk; from then on the files only grow."""
    for writer in _WRITERS.values():
        writer.flush()


def close_all():
    """Ends all files. What is written after it, also into the same directory, begins a new one."""
    while _WRITERS:
        _, writer = _WRITERS.popitem()
        writer.close()
