"""Files that are not there to be read."""

import os
import re
import subprocess
import sys
import tempfile

import pytest

from keras_transformer.data import LineDocuments
from keras_transformer.errors import UserError


def test_missing_file_names_path_and_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        LineDocuments("nowhere/train.txt")
    assert str(caught.value) == (
        f"nowhere/train.txt: no such file (the current directory is {tmp_path}). Check the path."
    )


def test_directory(tmp_path):
    message = f"{tmp_path}: is a directory. Name the files in it, for example {tmp_path}/*."
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


READ_AS_NOBODY = """
import os, sys
from keras_transformer.data import LineDocuments
from keras_transformer.errors import UserError
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for path in sys.argv[1:]:
    try:
        print(list(LineDocuments(path)))
    except UserError as error:
        print(error)
"""


def test_unreadable_files():
    # pytest's own directory is closed to the user that the child becomes.
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
            command = [sys.executable, "-c", READ_AS_NOBODY, readable, closed, inside]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
        finally:
            os.chmod(os.path.dirname(inside), 0o700)
    remedy = "permission denied. Make the file and its directories readable: chmod u+r."
    assert run.stdout.splitlines() == [
        "[('text',)]",
        f"{closed}: {remedy}",
        f"{inside}: {remedy}",
    ]
