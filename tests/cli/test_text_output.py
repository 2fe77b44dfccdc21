"""Files that a verb may write."""

import os
import sys
import tempfile

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_output import open_output, require_output_file
from tests.nobody import as_nobody


def test_a_directory_that_may_not_be_written():
    # pytest's own directory is closed to nobody.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        path = os.path.join(folder, "answers.en")
        with as_nobody(), pytest.raises(UserError) as caught:
            require_output_file("--output", path)
    assert str(caught.value) == (
        f"{path}: permission denied in {os.path.realpath(folder)}. Name another file with --output."
    )


def test_standard_output_is_utf8_and_there_at_once(capfdbinary, monkeypatch):
    with open(os.dup(1), "w", encoding="ascii", newline="\r\n") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with open_output(None) as write:
            write("Grüße\n")
            assert capfdbinary.readouterr().out == "Grüße\n".encode()
