"""The script that writes a made-up corpus for dry runs."""

import pathlib
import statistics
import subprocess
import sys

import keras_transformer

SCRIPT = pathlib.Path(keras_transformer.__file__).parents[1] / "training" / "made_up_corpus.py"


def run_script(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
    )


def test_files_are_parallel_with_documented_lengths(tmp_path):
    directory = tmp_path / "wmt14"
    assert run_script(directory, "--pairs", "5000").returncode == 0
    counts = {"train": 5000, "newstest2013": 3000, "newstest2014": 3003}
    for name, count in counts.items():
        sources, targets = (
            (directory / f"{name}.{language}").read_text().splitlines() for language in ("en", "de")
        )
        assert len(sources) == len(targets) == count
    lengths = [len(line.split()) for line in (directory / "train.en").read_text().splitlines()]
    assert 25 < statistics.mean(lengths) < 27
    assert min(lengths) >= 3
    assert max(lengths) <= 120


def test_existing_directory_is_left_unchanged(tmp_path):
    (tmp_path / "train.en").write_text("a real sentence\n")
    result = run_script(tmp_path)
    assert result.returncode == 2
    assert "exists already" in result.stderr
    assert (tmp_path / "train.en").read_text() == "a real sentence\n"
