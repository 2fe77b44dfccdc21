"""The printed report on a terminal, in a pipe, and in another encoding."""

import io

import pytest
from rich.console import Console

from keras_transformer.analysis.data_report import make_data_report, print_data_report
from keras_transformer.data import MemoryCorpus

PAIRS = [(f"ein Satz mit der Nummer {n}", f"a sentence with number {n}") for n in range(30)]
ODD = ("kurz [bold]und\x1b[31m rot", "word " * 60)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    corpus = MemoryCorpus([*PAIRS, PAIRS[0], ODD], name="my pairs")
    caches = tmp_path_factory.mktemp("caches")
    return make_data_report(corpus, caches, validation=MemoryCorpus(PAIRS[:3]), tokenizer="bytes")


def printed(report, encoding="utf-8", **settings):
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding, errors="replace")
    print_data_report(report, Console(file=stream, highlight=False, **settings))
    stream.flush()
    return buffer.getvalue().decode(encoding)


def row(text, name):
    (line,) = (line for line in text.splitlines() if line.startswith(name))
    return line.removeprefix(name).split()


def test_counts_are_in_plain_columns(report):
    text = printed(report, width=100)
    assert row(text, "pairs ") == ["32", "3"]
    assert row(text, "duplicates ") == ["1", "0"]
    assert row(text, "examples also in training ") == ["3"]
    characters = sorted(len(source) for source, _ in [*PAIRS, PAIRS[0], ODD])
    shortest, median, mean, _, longest = row(text, "source, characters ")
    assert (shortest, longest) == (str(characters[0]), str(characters[-1]))
    assert median == str(characters[15])
    assert mean == f"{sum(characters) / 32:.1f}"
    assert "training: my pairs\n" in text


def test_control_characters_are_escaped(report):
    text = printed(report, width=100)
    assert "\x1b" not in text
    assert "kurz [bold]und\\x1b[31m rot" in text
    assert "\x1b[31m rot" not in printed(report, width=100, force_terminal=True)


def test_odd_line_is_printed_with_its_place(report):
    lines = printed(report, width=100).splitlines()
    place = next(n for n, line in enumerate(lines) if "length ratio: 1" in line) + 1
    assert lines[place].startswith("    my pairs:32  tokens: source 23, target 300")
    assert lines[place + 2].strip().startswith("word word")
    assert len(lines[place + 2]) <= 100


def test_tables_have_rules_on_terminals_only(report, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert "╭─" in printed(report, width=100, force_terminal=True)
    monkeypatch.setenv("TERM", "dumb")
    assert "╭─" not in printed(report, width=100, force_terminal=True)


def test_bars_are_ascii_without_unicode(report):
    assert "#####" in printed({**report, "warnings": []}, "latin-1", width=100)


def test_normal_oddities_and_sample_are_printed(report):
    odd = [{**report["lines"]["odd"][0], "count": 9, "is_usual": True, "lines": []}]
    lines = {**report["lines"], "odd": odd, "sample": {"examples": 16, "every": 2}}
    text = printed({**report, "lines": lines}, width=100)
    assert "Odd lines among 16 examined (one in 2)" in text
    assert "identical sides: 9 (source and target are the same text): more than 1 in 20" in text
