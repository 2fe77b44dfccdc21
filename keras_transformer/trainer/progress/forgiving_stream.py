"""A stream that nobody need listen to."""

import contextlib


class ForgivingStream:
    """Writes to a stream what that stream can take, and never complains.

    A training is worth more than what it says: it goes on when the terminal is gone, the reader of
    a pipe has had enough, or the disk with the log is full. A stream of another encoding gets
    question marks for what it cannot show.

    >>> import io
    >>> stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    >>> ForgivingStream(stream).write("✓ Grüße")
    >>> stream.flush()
    >>> stream.buffer.getvalue()
    b'? Gr??e'
    >>> stream.close()
    >>> ForgivingStream(stream).write("Anybody there?")
    """

    def __init__(self, stream):
        self._stream = stream

    @property
    def encoding(self):
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text):
        text = text.encode(self.encoding, "replace").decode(self.encoding)
        # A stream that is closed raises ValueError.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self):
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self):
        with contextlib.suppress(OSError, ValueError):
            return self._stream.isatty()
        return False

    def fileno(self):
        return self._stream.fileno()
