"""How the cost of attention grows: points, exponents, picture."""

import struct

import numpy as np
import pytest

from training.benchmarks import attention
from training.benchmarks.attention import fit_growth, measure_growth
from training.benchmarks.attention_measurement import measure_attention
from training.benchmarks.attention_picture import draw_growth
from training.benchmarks.memory import MemoryPeak, available_memory
from training.benchmarks.processes import MeasurementError

LENGTHS = (4096, 512, 2048, 16_384)


class Growing:
    """Processes that find linear growth, but quadratic of full attention."""

    threads = 2

    def measure(self, what, *, mechanism, length, repeats, threads):
        assert (what, repeats, threads) == ("attention", 3, 2)
        exponent = 2 if mechanism == "scaled_dot_product" else 1
        overhead = 5 if length < 2048 else 0  # what every call costs is not fitted
        return {
            "task": "attention",
            "mechanism": mechanism,
            "metric": "seconds",
            "value": 1e-4 * length**exponent + overhead,
            "added_mb": 1e-3 * length**exponent,
        }


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(attention, "available_memory", lambda: 1e6)
    return list(measure_growth(Growing(), 3, ["scaled_dot_product", "local"], LENGTHS, say=str))


def test_all_lengths_are_measured_and_the_long_ones_fitted(rows):
    assert [(row["mechanism"], row["x"]) for row in rows] == [
        (name, length) for name in ("scaled_dot_product", "local") for length in sorted(LENGTHS)
    ]
    full, local = fit_growth(rows)
    assert (full["value"], full["added_mb"]) == pytest.approx((2, 2))
    assert (local["value"], local["added_mb"]) == pytest.approx((1, 1))
    assert (local["mechanism"], local["from"], local["to"]) == ("local", 2048, 16_384)


def test_what_memory_does_not_allow_is_left_out_and_told(monkeypatch):
    monkeypatch.setattr(attention, "available_memory", lambda: 40_000.0)
    told = []
    mechanisms = ["scaled_dot_product", "local"]
    rows = list(measure_growth(Growing(), 3, mechanisms, LENGTHS, say=str, warn=told.append))
    assert [row["x"] for row in rows] == [512, 2048, 4096, *sorted(LENGTHS)]
    assert told == [
        "scaled_dot_product, 16,384 tokens: left out, since it may take 268,435 MB of memory, and "
        "40,000 MB are free."
    ]


def test_what_fails_is_left_out_and_told():
    class Failing(Growing):
        def measure(self, what, **settings):
            if settings["length"] > 2048:
                raise MeasurementError("exit code 1: OOM")
            return super().measure(what, **settings)

    told = []
    rows = list(measure_growth(Failing(), 3, ["local"], LENGTHS, say=str, warn=told.append))
    assert [row["x"] for row in rows] == [512, 2048]
    assert told == ["local, 4,096 tokens: left out, exit code 1: OOM"]
    (fit,) = fit_growth(rows)
    assert "value" not in fit


def test_picture_is_a_png(rows):
    content = draw_growth(rows, "How the cost of attention grows")
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert width > height > 500


@pytest.mark.parametrize("mechanism", ["linformer", "chunked"])
def test_measurement_is_one_row(mechanism):
    row = measure_attention(mechanism=mechanism, length=96, repeats=2, threads=1)
    assert (row["mechanism"], row["batch"], row["metric"]) == (mechanism, "1x96", "seconds")
    assert len(row["spread"]) == 2
    assert row["value"] > 0
    assert row["added_mb"] >= 0


def test_memory_is_that_of_the_block_alone():
    np.ones(2**24)  # 128 MB, before the block
    with MemoryPeak() as memory:
        np.ones(2**23)  # 64 MB
    assert 50 < memory.added_mb < 110
    assert available_memory() > 0
