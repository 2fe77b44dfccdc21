"""Standings of several rounds, by hand."""

import io

import pytest
from rich.console import Console

from training.benchmarks.ratio_table import Spread, make_standings, make_tables

LOOP, FIT = "keras_transformer loop", "keras_transformer fit"


def row(contender, number, value, **more):
    return {
        "task": "train",
        "config": "tiny",
        "batch": "4096tok",
        "value": value,
        "spread": [value - 1, value, value + 2],
        "peak_rss_mb": 1000 + number,
        "contender": contender,
        "round": number,
        "threads": 1,
        **more,
    }


# In the second round the machine is twice as slow, for both; in the third for the peer alone.
ROWS = [
    row(LOOP, 1, 200.0, mfu=0.5),
    row("PyTorch", 1, 100.0),
    row("PyTorch", 2, 50.0),
    row(LOOP, 2, 100.0, mfu=0.25),
    row(LOOP, 3, 200.0, mfu=0.5),
    row("PyTorch", 3, 50.0),
]


def test_ratios_are_those_of_the_same_round():
    ours, peer = make_standings(ROWS)
    assert (ours.contender, peer.contender) == (LOOP, "PyTorch")
    assert peer.ratios == {LOOP: Spread(2.0, 2.0, 4.0)}
    assert ours.ratios == {}
    assert ours.value == Spread(200.0, 99.0, 202.0)
    assert (ours.utilization, peer.utilization) == (0.5, None)
    assert peer.memory == 1003


def test_rounds_that_one_of_both_has_not_are_no_ratio():
    standings = make_standings([row(LOOP, 1, 200.0), row(FIT, 2, 100.0)])
    assert [standing.ratios for standing in standings] == [{}, {}]


@pytest.mark.parametrize(
    ("values", "digits", "text"),
    [
        ([1234.5, 1000.0, 2000.0], None, "1,234 (1,000–2,000)"),
        ([9.876, 8.0, 12.5], None, "9.88 (8.00–12.50)"),
        ([3.0], 2, "3.00"),
    ],
)
def test_spread_reads_well(values, digits, text):
    assert Spread(values[0], min(values), max(values)).text(digits) == text


def test_table_shows_rates_ratios_utilization_and_memory():
    console = Console(file=io.StringIO(), width=120)
    others = [row("OpenNMT-tf", 1, 7.5, task="infer_greedy", batch=32, threads=2)]
    for table in make_tables([*ROWS, *others]):
        console.print(table)
    printed = console.file.getvalue()
    assert printed.splitlines()[0].strip() == "train tiny, batch 4096tok, 1 thread"
    assert "target tokens per CPU second" in printed
    assert "loop ÷ it" in printed
    lines = [line.split("│") for line in printed.splitlines()]
    peer = next(line for line in lines if len(line) > 1 and "PyTorch" in line[1])
    cells = [cell.strip() for cell in peer[1:-1]]
    assert cells == ["PyTorch", "50.0 (49.0–102.0)", "2.00 (2.00–4.00)", "–", "1,003 MB"]
    alone = printed[printed.index("infer_greedy tiny, batch 32, 2 threads") :]
    assert "sentences per second" in alone
    assert "÷" not in alone
