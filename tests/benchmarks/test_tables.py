"""Tables of several rounds, computed by hand."""

import io
import re

import pytest

from keras_transformer._utils.console import render
from training.benchmarks.tables import Spread, draw_tables, summarize

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


# In the second round the machine is half as fast for both, in the third round for the peer only.
ROWS = [
    row(LOOP, 1, 200.0, mfu=0.5),
    row("PyTorch", 1, 100.0),
    row("PyTorch", 2, 50.0),
    row(LOOP, 2, 100.0, mfu=0.25),
    row(LOOP, 3, 200.0, mfu=0.5),
    row("PyTorch", 3, 50.0),
]


def test_ratios_compare_measurements_of_the_same_round():
    ours, peer = summarize(ROWS)
    assert (ours.contender, peer.contender) == (LOOP, "PyTorch")
    assert peer.ratios == {LOOP: Spread(2.0, 2.0, 4.0)}
    assert ours.ratios == {}
    assert ours.value == Spread(200.0, 99.0, 202.0)
    assert (ours.utilization, peer.utilization) == (0.5, None)
    assert peer.memory == 1003


def test_rounds_of_only_one_contender_have_no_ratio():
    results = summarize([row(LOOP, 1, 200.0), row(FIT, 2, 100.0)])
    assert [result.ratios for result in results] == [{}, {}]


@pytest.mark.parametrize(
    ("values", "digits", "text"),
    [
        ([1234.5, 1000.0, 2000.0], None, "1,234 (1,000–2,000)"),
        ([9.876, 8.0, 12.5], None, "9.88 (8.00–12.50)"),
        ([3.0], 2, "3.00"),
    ],
)
def test_spread_is_rounded_to_significant_digits(values, digits, text):
    assert Spread(values[0], min(values), max(values)).text(digits) == text


def test_tables_show_rates_ratios_utilization_and_memory():
    others = [row("OpenNMT-tf", 1, 7.5, task="infer_greedy", batch=32, threads=2)]
    printed = render(lambda console: draw_tables(console, [*ROWS, *others]), io.StringIO())
    lines = printed.splitlines()
    assert lines[0] == "train tiny, batch 4096tok, 1 thread"
    assert "target tokens per CPU second" in lines[1]
    assert "loop ÷ it" in lines[1]
    peer = next(line for line in lines if line.startswith("PyTorch"))
    cells = ["50.0 (49.0–102.0)", "2.00 (2.00–4.00)", "–", "1,003 MB"]
    assert re.split(r"\s{2,}", peer.removeprefix("PyTorch").strip()) == cells
    alone = printed[printed.index("infer_greedy tiny, batch 32, 2 threads") :]
    assert "sentences per second" in alone
    assert "÷" not in alone
