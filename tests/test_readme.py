"""The README's code runs as it stands."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


(TRAINING_EXAMPLE,) = (example for example in EXAMPLES if "backwards" in example)
RUN_EACH = """
import os, runpy, sys
for path in sys.argv[1:]:
    os.chdir(os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
"""


def run(folder, *arguments):
    """What Python prints in a process of its own, in which all went well."""
    command = [sys.executable, "-c", *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_training_example_learns(tmp_path):
    assert TRAINING_EXAMPLE.count("\n") <= 25
    printed = run(tmp_path, TRAINING_EXAMPLE)
    assert (tmp_path / "backwards.keras").exists()
    last = re.findall(r"val_token_accuracy: ([\d.]+)", printed)[-1]
    assert float(last) > 0.95


def test_the_other_examples_run(tmp_path):
    """One after the other in one process, each with names and a directory of its own."""
    paths = []
    for number, example in enumerate(EXAMPLES):
        if example is not TRAINING_EXAMPLE:
            (tmp_path / str(number)).mkdir()
            paths.append(tmp_path / str(number) / "example.py")
            paths[-1].write_text(example, encoding="utf-8")
    assert len(paths) > 1
    run(tmp_path, RUN_EACH, *paths)


def test_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_names_only_what_is_there():
    for path in re.findall(r"`((?:keras_transformer|tests|training)/[\w/.]*)`", README):
        assert (ROOT / path).exists(), path
