"""Files that a verb may write."""

import os
import subprocess
import sys
import tempfile

from keras_transformer.cli.text_output import open_output

ASK_AS_NOBODY = """
import os, sys
path, sys.argv = sys.argv[1], ["keras-transformer"]
from keras_transformer.cli.text_output import require_output_file
from keras_transformer.errors import UserError
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    require_output_file("--output", path)
except UserError as error:
    print(error)
"""


def test_a_directory_that_may_not_be_written():
    # pytest's own directory is closed to the user that the child becomes.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        path = os.path.join(folder, "answers.en")
        command = [sys.executable, "-c", ASK_AS_NOBODY, path]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    folder = os.path.dirname(path)
    assert result.stdout == (
        f"{path}: permission denied in {os.path.realpath(folder)}. Name another file with "
        "--output.\n"
    )


def test_standard_output_is_utf8_and_there_at_once(capfdbinary, monkeypatch):
    with open(os.dup(1), "w", encoding="ascii", newline="\r\n") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with open_output(None) as write:
            write("Grüße\n")
            assert capfdbinary.readouterr().out == "Grüße\n".encode()
