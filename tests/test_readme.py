"""The README's code runs as it stands."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.count(chr(10))}-lines")
def test_examples_run(example, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    if "backwards" in example:
        assert example.count("\n") <= 25
        assert (tmp_path / "backwards.keras").exists()
        last = re.findall(r"val_token_accuracy: ([\d.]+)", result.stdout)[-1]
        assert float(last) > 0.95


def test_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_names_only_what_is_there():
    for path in re.findall(r"`((?:keras_transformer|tests|training)/[\w/.]*)`", README):
        assert (ROOT / path).exists(), path
