"""Code and names in the README."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


(TRAINING_EXAMPLE,) = (example for example in EXAMPLES if "backwards" in example)
(FIRST_EXAMPLE,) = (example for example in EXAMPLES if 'kt.train("quickstart"' in example)
# Stands for the recipe of the quick start, which takes minutes.
SMALL_RECIPE = """
name: dates
task: translation
data: {builtin: dates, builtin_pairs: 500}
text: {vocabulary_size: 500}
model: {size: tiny, hidden_dim: 16, intermediate_dim: 32, num_heads: 2, max_length: 64}
batches: {tokens: 512}
training: {steps: 4, warmup_steps: 2}
"""
RUN_EACH = """
import os, runpy, sys
for path in sys.argv[1:]:
    os.chdir(os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
"""


def run(folder, *arguments):
    """Returns what a Python process prints that must succeed."""
    command = [sys.executable, "-c", *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_first_example_runs_with_a_small_recipe(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL_RECIPE, encoding="utf-8")
    run(tmp_path, FIRST_EXAMPLE.replace('"quickstart"', '"small.yaml"'))


def test_training_example_learns_to_reverse_digits(tmp_path):
    assert TRAINING_EXAMPLE.count("\n") <= 25
    printed = run(tmp_path, TRAINING_EXAMPLE)
    assert (tmp_path / "backwards.keras").exists()
    last = re.findall(r"val_token_accuracy: ([\d.]+)", printed)[-1]
    assert float(last) > 0.95


def test_other_examples_run(tmp_path):
    """Runs one example after the other in one process, each in a folder of its own."""
    paths = []
    for number, example in enumerate(EXAMPLES):
        if example not in (TRAINING_EXAMPLE, FIRST_EXAMPLE):
            (tmp_path / str(number)).mkdir()
            paths.append(tmp_path / str(number) / "example.py")
            paths[-1].write_text(example, encoding="utf-8")
    assert len(paths) > 1
    run(tmp_path, RUN_EACH, *paths)


def test_make_targets_of_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_paths_of_readme_exist():
    for path in re.findall(r"`((?:keras_transformer|tests|training)/[\w/.]*)`", README):
        assert (ROOT / path).exists(), path


def test_readme_has_at_most_250_lines():
    assert README.count("\n") <= 250
