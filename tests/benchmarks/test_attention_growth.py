"""Growth of the cost of attention: points, exponents, picture."""

import struct

import numpy as np
import pytest

from training.benchmarks import attention_growth
from training.benchmarks.attention_growth import (
    MemoryPeak,
    available_memory,
    draw_growth,
    fit_growth,
    measure_attention,
    measure_growth,
)
from training.benchmarks.processes import MeasurementError

LENGTHS = (4096, 512, 2048, 16_384)


class Growing:
    """Replacement for `Processes`: quadratic growth for full attention, linear for others."""

    threads = 2

    def measure(self, name, *, mechanism, length, repeats, threads):
        assert (name, repeats, threads) == ("attention", 3, 2)
        exponent = 2 if mechanism == "scaled_dot_product" else 1
        overhead = 5 if length < 2048 else 0  # short texts are not fitted
        return {
            "task": "attention",
            "mechanism": mechanism,
            "metric": "seconds",
            "value": 1e-4 * length**exponent + overhead,
            "added_mb": 1e-3 * length**exponent,
        }


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(attention_growth, "available_memory", lambda: 1e6)
    return list(measure_growth(Growing(), 3, ["scaled_dot_product", "local"], LENGTHS, report=str))


def test_growth_is_measured_at_all_lengths_and_fitted_to_long_ones(rows):
    assert [(row["mechanism"], row["x"]) for row in rows] == [
        (name, length) for name in ("scaled_dot_product", "local") for length in sorted(LENGTHS)
    ]
    full, local = fit_growth(rows)
    assert (full["value"], full["added_mb"]) == pytest.approx((2, 2))
    assert (local["value"], local["added_mb"]) == pytest.approx((1, 1))
    assert (local["mechanism"], local["from"], local["to"]) == ("local", 2048, 16_384)


def test_length_beyond_free_memory_is_left_out_with_a_warning(monkeypatch):
    monkeypatch.setattr(attention_growth, "available_memory", lambda: 40_000.0)
    warnings = []
    mechanisms = ["scaled_dot_product", "local"]
    rows = list(measure_growth(Growing(), 3, mechanisms, LENGTHS, report=str, warn=warnings.append))
    assert [row["x"] for row in rows] == [512, 2048, 4096, *sorted(LENGTHS)]
    (warning,) = warnings
    for fact in ("scaled_dot_product, 16,384 tokens", "268,435 MB", "40,000 MB"):
        assert fact in warning


def test_length_that_fails_is_left_out_with_a_warning():
    class Failing(Growing):
        def measure(self, name, **settings):
            if settings["length"] > 2048:
                raise MeasurementError("exit code 1: OOM")
            return super().measure(name, **settings)

    warnings = []
    rows = list(measure_growth(Failing(), 3, ["local"], LENGTHS, report=str, warn=warnings.append))
    assert [row["x"] for row in rows] == [512, 2048]
    (warning,) = warnings
    assert "local, 4,096 tokens" in warning
    assert "exit code 1: OOM" in warning
    (fit,) = fit_growth(rows)
    assert "value" not in fit


def test_picture_of_growth_is_a_wide_png(rows):
    content = draw_growth(rows, "How the cost of attention grows")
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert width > height > 500


@pytest.mark.parametrize("mechanism", ["linformer", "chunked"])
def test_measurement_of_a_mechanism_is_one_row(mechanism):
    row = measure_attention(mechanism=mechanism, length=96, repeats=2, threads=1)
    assert (row["mechanism"], row["batch"], row["metric"]) == (mechanism, "1x96", "seconds")
    assert len(row["spread"]) == 2
    assert row["value"] > 0
    assert row["added_mb"] >= 0


def test_memory_peak_counts_the_block_only():
    np.ones(2**24)  # 128 MB, before the block
    with MemoryPeak() as memory:
        np.ones(2**23)  # 64 MB
    assert 50 < memory.added_mb < 110
    assert available_memory() > 0
