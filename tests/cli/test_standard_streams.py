"""Standard streams that are closed, or whose reader has ended; all without TensorFlow."""

import os
import pathlib
import subprocess
import sys

import pytest

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")

# A mistake that `models` reports without importing TensorFlow.
MISTAKE = f"'{COMMAND}' models --vocabulary-size 0"


def run_in_shell(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True)


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_exit_code_with_closed_streams_is_unchanged(closed):
    result = run_in_shell(f"{MISTAKE} {closed}")
    assert (result.returncode, result.stdout, result.stderr) == (2, "", "")


def test_exit_code_with_a_closed_pipe_is_unchanged():
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(["bash", "-c", MISTAKE], stderr=writing)
    os.close(writing)
    assert result.returncode == 2


def test_open_closed_streams_keeps_their_numbers_from_files(tmp_path):
    program = (
        "import os, sys\n"
        "from keras_transformer.cli.shared import open_closed_streams\n"
        "open_closed_streams()\n"
        "file = open('opened', 'w')\n"
        "print('for nobody', file=sys.stderr)\n"
        "os.write(2, b'nor this')\n"
        "sys.exit(file.fileno() <= 2)\n"
    )
    script = tmp_path / "keras-transformer"
    script.write_text(program)
    result = run_in_shell(f"cd '{tmp_path}'; '{sys.executable}' '{script}' <&- >&- 2>&-")
    assert result.returncode == 0
    assert (tmp_path / "opened").read_text() == ""
