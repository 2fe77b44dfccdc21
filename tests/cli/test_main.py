"""The installed command: help, usage, errors, exit codes."""

import os
import pathlib
import subprocess
import sys

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import import_tensorflow_quietly, main
from keras_transformer.trainer.signals import TrainingFailed

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")


def run(*arguments, **settings):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, **settings)


def test_version_is_that_of_the_package():
    from keras_transformer import __version__

    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"keras-transformer {__version__}\n")


def test_help_has_one_line_for_every_verb():
    from keras_transformer.cli.main import VERBS

    lines = run("--help").stdout.splitlines()
    for verb in VERBS:
        assert any(line.startswith(f"    {verb} ") and len(line.split()) > 3 for line in lines)


def test_python_m_keras_transformer_is_the_command():
    result = subprocess.run(
        [sys.executable, "-m", "keras_transformer", "--help"], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout) == (0, run("--help").stdout)


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["train", "nowhere.yaml"]])
def test_help_and_missing_files_do_not_import_tensorflow(arguments):
    program = (
        f"import sys; sys.argv = ['keras-transformer', *{arguments}]\n"
        "from keras_transformer.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "False False"


@pytest.mark.parametrize("own", [None, "false"])
def test_gpu_memory_is_allocated_as_needed_unless_the_user_decides(monkeypatch, own):
    given = {} if own is None else {"TF_FORCE_GPU_ALLOW_GROWTH": own}
    monkeypatch.setattr(os, "environ", given)
    import_tensorflow_quietly()
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == (own or "true")


@pytest.mark.parametrize("arguments", [[], ["modles"], ["models", "--vocabulary-size", "many"]])
def test_wrong_usage_has_exit_code_2(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "usage:" in result.stderr


def test_user_error_is_one_line_and_exit_code_2():
    result = run("models", "--vocabulary-size", "0")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert all(fact in result.stderr for fact in ["keras-transformer: ", "--vocabulary-size", " 0"])


class Verb:
    """A parser whose only command calls a function."""

    def __init__(self, function):
        self.run = lambda options: function()

    def parse_args(self, arguments):
        return self


def raising(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    ("function", "exit_code", "message"),
    [
        (lambda: None, 0, ""),
        (lambda: 1, 1, ""),
        (raising(UserError("it is empty.", where="a\x1b[31m")), 2, "a\\x1b[31m: it is empty."),
        (raising(TrainingFailed("The loss is not finite.")), 1, "The loss is not finite."),
        (raising(OSError("a.txt: Input/output error.")), 1, "a.txt: Input/output error."),
    ],
)  # fmt: skip
def test_main_renders_errors_and_returns_the_exit_code(
    monkeypatch, capsys, function, exit_code, message
):
    monkeypatch.setattr("keras_transformer.cli.main.make_parser", lambda: Verb(function))
    assert main([]) == exit_code
    assert capsys.readouterr() == ("", message and f"keras-transformer: {message}\n")


def test_models_counts_parameters_without_log_lines_whatever_the_keras_backend():
    environment = {**os.environ, "KERAS_BACKEND": "jax"}  # set for another program
    result = run("models", "TextEncoder", "--vocabulary-size", "100", env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    tiny = next(line for line in result.stdout.splitlines() if line.startswith("tiny "))
    assert "542,976" in tiny
