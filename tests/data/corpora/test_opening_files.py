"""Files that are not there to be read."""

import os
import re
import tempfile

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import LineDocuments
from tests.nobody import as_nobody


def test_missing_file_names_path_and_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        LineDocuments("nowhere/train.txt")
    assert str(caught.value) == (
        f"nowhere/train.txt: no such file (the current directory is {tmp_path}). Check the path."
    )


def test_directory(tmp_path):
    message = (
        f"{tmp_path}: is a directory. Name a file in it, or where several are read, several: "
        f"{tmp_path}/*."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        LineDocuments(tmp_path)


def test_a_file_used_as_a_directory(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "train.txt"
    with pytest.raises(UserError, match=re.escape(f"{path}: cannot be opened: Not a directory.")):
        LineDocuments(path)


def test_named_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"pipe: is not a regular file\. .* save it to a file"):
        LineDocuments(tmp_path / "pipe")


def test_unreadable_files():
    # pytest's own directory is closed to nobody.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        readable, closed = os.path.join(folder, "readable"), os.path.join(folder, "closed")
        inside = os.path.join(folder, "room", "file")
        os.mkdir(os.path.dirname(inside))
        for path in (readable, closed, inside):
            with open(path, "w") as file:
                file.write("text\n")
        os.chmod(readable, 0o644)
        os.chmod(closed, 0o000)
        os.chmod(os.path.dirname(inside), 0o000)
        try:
            with as_nobody():
                assert list(LineDocuments(readable)) == [("text",)]
                for path in (closed, inside):
                    with pytest.raises(UserError) as caught:
                        list(LineDocuments(path))
                    assert str(caught.value) == (
                        f"{path}: permission denied. Make the file and its directories readable: "
                        "chmod u+r."
                    )
        finally:
            os.chmod(os.path.dirname(inside), 0o700)
