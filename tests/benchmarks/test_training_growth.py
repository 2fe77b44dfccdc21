"""Growth of the cost of training: curves, exponents, picture."""

import json
import struct
import time

import numpy as np
import pytest

from tests.benchmarks.small_workload import write_short_sentences
from training.benchmarks import training_growth
from training.benchmarks.growth import PowerLaw
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.training_growth import (
    CURVES,
    cluster,
    draw_training_growth,
    fit_curves,
    measure_curves,
    measure_preparation,
    measure_step,
    measure_worker,
    measure_workers,
)


class Growing:
    """Replacement for `Processes`: time grows with the square of `x`, memory with its root."""

    threads = 2

    def measure(self, name, **settings):
        fields = {curve.field for curve in CURVES if curve.measurement == name}
        varied = [settings[field] for field in fields if field in settings]
        assert settings["threads"] == 2
        metric = "seconds" if name == "preparation" else "ms_per_step"
        size = float(np.prod(varied))
        return {"metric": metric, "value": 3 * size**2, "added_mb": size**0.5}


@pytest.fixture(scope="module")
def rows():
    return list(measure_curves(Growing(), repeats=1, report=lambda line: None))


def test_all_points_of_all_curves_are_measured_and_fitted(rows):
    assert len(rows) == sum(len(curve.values) for curve in CURVES)
    fits = fit_curves(rows)
    assert [fit["task"] for fit in fits] == [curve.task for curve in CURVES]
    for fit in fits:
        assert fit["value"] == fit["value_at_the_end"] == pytest.approx(2)
        assert fit["added_mb"] == pytest.approx(0.5)


def test_points_without_a_logarithm_are_not_fitted():
    points = [(1, 0), (2, 4), (4, 8), (8, 16)]
    rows = [
        {"task": "scaling_batch", "x": x, "value": x, "added_mb": memory} for x, memory in points
    ]
    (fit,) = fit_curves(rows)
    assert (fit["value"], fit["added_mb"]) == (1, 1)
    (fit,) = fit_curves([{**row, "added_mb": 0} for row in rows])
    assert (fit["value"], "added_mb" in fit) == (1, False)


def test_power_law_has_least_squares_of_logarithms():
    law = PowerLaw.fit([1, 2, 4], [1, 8, 4])
    # The logarithms to base 2 are (0, 0), (1, 3), (2, 2).
    assert law.exponent == pytest.approx(1.0)
    assert law.factor == pytest.approx(2 ** (2 / 3))
    np.testing.assert_allclose(law([1, 8]), [2 ** (2 / 3), 8 * 2 ** (2 / 3)])


def test_picture_is_a_wide_png_with_and_without_workers(rows):
    workers = [{"task": "scaling_workers", "x": n, "value": 1000.0 * n} for n in (1, 2)]
    flat = [{**row, "added_mb": 0} for row in rows]
    for each in (rows + workers, flat[:6]):
        content = draw_training_growth(each, "Growth of cost")
        assert content.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", content[16:24])
        assert width > height > 500


def test_point_that_fails_is_left_out_with_a_warning():
    class Failing(Growing):
        def measure(self, name, **settings):
            if settings.get("vocabulary_size") == 64_000:
                raise MeasurementError("exit code 1: MemoryError")
            return super().measure(name, **settings)

    warnings = []
    curve = next(curve for curve in CURVES if curve.field == "vocabulary_size")
    rows = list(
        measure_curves(Failing(), 1, [curve], report=lambda line: None, warn=warnings.append)
    )
    assert [row["x"] for row in rows] == list(curve.values[:-1])
    (warning,) = warnings
    assert warning.startswith("ids in the vocabulary: 64,000")
    assert warning.endswith("exit code 1: MemoryError")


def test_workers_are_started_together_on_different_cores(monkeypatch):
    started = []

    def measure(self, name, environment=None, **settings):
        started.append((name, environment["TF_CONFIG"], self._prefix, settings))
        return {"value": 5.0}

    monkeypatch.setattr(Processes, "measure", measure)
    monkeypatch.setattr("training.benchmarks.training_growth.available_cores", lambda: [0, 1])
    monkeypatch.setattr("training.benchmarks.processes.available_cores", lambda: [0, 1])
    warnings = []
    rows = list(measure_workers(2, 1, (1, 2, 3), report=lambda line: None, warn=warnings.append))
    (warning,) = warnings
    assert warning.startswith("3 worker processes")
    assert [(row["task"], row["x"]) for row in rows] == [("scaling_workers", n) for n in (1, 2)]
    assert [name for name, *_ in started] == ["worker"] * 3
    assert started[0][1] == ""
    configs = sorted((json.loads(config) for _, config, *_ in started[1:]), key=str)
    assert [config["task"]["index"] for config in configs] == [0, 1]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len({str(prefix) for _, _, prefix, _ in started[1:]}) == 2 or not started[1][2]


def test_cluster_has_different_ports_of_the_loopback_interface():
    first, second = map(json.loads, cluster(2))
    assert first["cluster"] == second["cluster"]
    addresses = first["cluster"]["worker"]
    assert len(set(addresses)) == 2
    assert all(address.startswith("127.0.0.1:") for address in addresses)


class CountingLoop:
    """Training loop that only counts its steps."""

    def __init__(self, model, batches, max_length=64):
        self.model, self.batches, self.max_length = model, batches, max_length
        self.runs = []

    def run(self, steps):
        self.runs.append(steps)


def test_step_is_timed_with_the_given_size(monkeypatch):
    loops = []

    def make_loop(*arguments, **settings):
        loops.append(CountingLoop(*arguments, **settings))
        return loops[-1]

    monkeypatch.setattr(training_growth, "make_loop", make_loop)
    row = measure_step(rows=2, length=5, repeats=2, threads=1, vocabulary_size=30)
    assert (row["batch"], row["metric"], row["reps"]) == ("2x5", "ms_per_step", 2)
    assert row["added_mb"] >= 0
    (loop,) = loops
    assert loop.model.vocabulary_size == 30
    assert loop.runs == [1, 3, 3, 3]  # short sentence, warm-up, two repeats
    labels = [loop.batches.batch(0, number)[1] for number in range(len(loop.batches))]
    assert [each.shape for each in labels] == [(1, 8)] + [(2, 5)] * 9
    assert all(4 <= each.min() <= each.max() < 30 for each in labels)


def test_preparation_is_timed_with_the_given_number_of_lines(monkeypatch):
    monkeypatch.setattr(training_growth, "_VOCABULARY_SIZE", 400)
    monkeypatch.setattr(training_growth, "_LEARNED_LINES", 50)
    row = measure_preparation(lines=30, repeats=2, threads=1)
    assert (row["batch"], row["metric"], row["reps"]) == (30, "seconds", 2)
    assert row["value"] > 0


def test_single_worker_returns_its_rate(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    runs = []
    monkeypatch.setattr(
        training_growth, "make_runner", lambda *_: (None, lambda: runs.append(time.sleep(0.01)))
    )
    data = write_short_sentences(tmp_path)
    row = measure_worker(config="tiny", batches=1, repeats=2, data=data)
    assert (row["metric"], len(row["spread"]), len(runs)) == ("tgt_tokens_per_s", 2, 3)
    assert 0 < row["value"] <= 341 * 5 / 0.01
