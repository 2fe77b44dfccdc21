"""Lines of a text file, plain or gzip, read so that nothing is lost, glued or split in silence."""

import os
import stat

from keras_transformer.data.corpora.tally import TOO_LONG
from keras_transformer.data.corpora.text_stream import BUFFER_BYTES, decode_lines, unpack
from keras_transformer.errors import UserError


def read_lines(path, tally, encoding_errors, max_characters):
    """Yields each line of a file as `str`, `BadLine` or `TOO_LONG`, and keeps the tally's place.

    What a line is, `decode_lines` says. NUL characters are taken out and counted.

    Args:
        path: The file. Whether it is gzip is told by its content, not by its name.
        tally: A `Tally`.
        encoding_errors: As in `ReadingRules`.
        max_characters: A longer line is given as `TOO_LONG` and never held whole.

    Raises:
        UserError: If the file cannot be opened, is not UTF-8 text as a whole, or is damaged gzip.
    """
    with open_file(path) as file:
        for line in decode_lines(unpack(file), path, tally, encoding_errors, max_characters):
            if isinstance(line, str):
                line = tally.without_nul(line)
                if len(line) > max_characters:
                    line = TOO_LONG
            yield line


def open_file(path):
    """Opens a file for reading bytes; raises `UserError` if it is not there to be read."""
    try:
        mode = os.stat(path).st_mode
        # To open a named pipe would wait until somebody writes to it.
        if stat.S_ISREG(mode):
            return open(path, "rb", buffering=BUFFER_BYTES)
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file (the current directory is {os.getcwd()}). Check the path."
        ) from None
    except PermissionError:
        raise UserError(
            f"{path}: permission denied. Make the file and its directories readable: chmod u+r."
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be opened: {error.strerror}. Check the path.") from None
    if stat.S_ISDIR(mode):
        raise UserError(
            f"{path}: is a directory. Name a file in it, or where several are read, several: "
            f"{os.path.join(path, '*')}."
        )
    raise UserError(
        f"{path}: is not a regular file. A corpus is read more than once: save it to a file first."
    )
