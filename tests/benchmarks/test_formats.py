"""`python -m training.benchmarks.formats`, on the phrases."""

import json

import pytest

from tests import phrases
from training.benchmarks import formats


@pytest.fixture
def files(tmp_path):
    """Files of sources and of references."""
    pairs = phrases.make_pairs()[-3:]  # of more than four words, as BLEU needs
    paths = tmp_path / "sources.txt", tmp_path / "references.txt"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def test_formats_are_measured_in_a_table(phrases_run, files, monkeypatch, capsys):
    monkeypatch.setattr(formats, "EXPORTS", (("ctranslate2", {}),))
    sources, references = files
    command = [phrases_run, "--sources", sources, "--references", references, "--few", "1"]
    assert formats.main([*map(str, command), "--json"]) == 0
    row, *table = capsys.readouterr().out.splitlines()
    measured = json.loads(row)
    assert measured["format"] == "ctranslate2"
    assert measured["bleu"] > 90
    assert measured["texts_changed"] == 0
    assert 0 < measured["memory_mb"] < 400  # without TensorFlow
    assert min(measured["batch_1"], measured["batch_32"], measured["load_seconds"]) > 0
    assert [line.count("|") for line in table] == [len(formats.COLUMNS) + 1] * 3


def test_references_of_another_number_exit_with_2(phrases_run, files, capsys):
    sources, references = files
    references.write_text("one\n")
    options = ["--sources", str(sources), "--references", str(references)]
    assert formats.main([str(phrases_run), *options]) == 2
    assert "as many lines" in capsys.readouterr().err
