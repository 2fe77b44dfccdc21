"""The installed command, as a person meets it."""

import os
import pathlib
import subprocess
import sys

import pytest

from keras_transformer.cli.main import import_tensorflow_quietly

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")


def run(*arguments, **settings):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, **settings)


def test_version():
    from keras_transformer import __version__

    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"keras-transformer {__version__}\n")


def test_help_names_every_verb():
    from keras_transformer.cli.main import VERBS

    printed = run("--help").stdout
    assert all(f"\n    {verb} " in printed for verb in VERBS)


def test_help_does_not_wait_for_tensorflow():
    program = (
        "import sys; sys.argv = ['keras-transformer', '--help']\n"
        "from keras_transformer.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "False False"


def test_whatever_backend_other_programs_use():
    result = run("models", env={**os.environ, "KERAS_BACKEND": "jax"})
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("own", [None, "false"])
def test_memory_of_a_gpu_is_left_for_other_processes(monkeypatch, own):
    given = {} if own is None else {"TF_FORCE_GPU_ALLOW_GROWTH": own}
    monkeypatch.setattr(os, "environ", given)
    import_tensorflow_quietly()
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == (own or "true")


@pytest.mark.parametrize("arguments", [[], ["modles"], ["models", "--vocabulary-size", "many"]])
def test_wrong_usage_exits_with_2(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "usage:" in result.stderr


def test_a_users_mistake_is_one_line_and_exit_code_2():
    result = run("models", "--vocabulary-size", "0")
    assert result.returncode == 2
    assert result.stderr == (
        "keras-transformer: `--vocabulary-size` must be a whole number of at least 1; got 0.\n"
    )


def test_models_counts_parameters_and_is_quiet():
    result = run("models", "TextEncoder", "--vocabulary-size", "100")
    assert result.returncode == 0
    assert result.stderr == ""
    tiny = next(line for line in result.stdout.splitlines() if " tiny " in line)
    assert "542,976" in tiny
