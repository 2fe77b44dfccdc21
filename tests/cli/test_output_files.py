"""Output files of the commands, and standard output."""

import os
import sys
import tempfile

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.shared import open_output, require_output_file
from tests._utils.nobody import as_nobody


def test_require_output_file_in_a_read_only_directory_raises_an_error():
    # The user nobody cannot read pytest's own directory.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        path = os.path.join(folder, "answers.en")
        with as_nobody(), pytest.raises(UserError) as caught:
            require_output_file("--output", path)
    assert str(caught.value).startswith(f"{path}: permission denied in ")
    assert "--output" in str(caught.value)


def test_open_output_writes_utf8_at_once(capfdbinary, monkeypatch):
    with open(os.dup(1), "w", encoding="ascii", newline="\r\n") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with open_output(None) as write:
            write("Grüße\n")
            assert capfdbinary.readouterr().out == "Grüße\n".encode()
