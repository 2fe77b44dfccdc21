"""The command line of `keras-transformer`, which measurements start."""

import pathlib
import sys

from keras_transformer._utils.process import command_line

BESIDE = str(pathlib.Path(sys.executable).with_name("keras-transformer"))


def make_command(directory):
    directory.mkdir()
    command = directory / "keras-transformer"
    command.touch()
    command.chmod(0o755)
    return command


def test_command_line_is_the_running_command_wherever_it_is_installed(tmp_path, monkeypatch):
    command = make_command(tmp_path / "bin")
    monkeypatch.setattr(sys, "argv", [str(command), "compare"])
    assert command_line() == [str(command)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/keras-transformer"])
    assert command_line() == [str(command)]


def test_command_line_is_beside_the_interpreter_or_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["a_script.py"])
    assert command_line() == [BESIDE]
    command = make_command(tmp_path / "local")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(command.parent))
    assert command_line() == [str(command)]
