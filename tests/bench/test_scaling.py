"""Curves, their exponents and their picture."""

import json
import struct
import time

import numpy as np
import pytest

from tests.bench.small_workload import write_short_sentences
from training.benchmarks import scaling_measurement
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.scaling import (
    CURVES,
    PowerLaw,
    cluster,
    fit_curves,
    measure_curves,
    measure_workers,
)
from training.benchmarks.scaling_measurement import measure_step, measure_worker
from training.benchmarks.scaling_picture import draw_scaling


class Growing:
    """Processes whose times grow with the square of what is varied, and memory with its root."""

    threads = 2

    def measure(self, what, **settings):
        fields = {curve.field for curve in CURVES if curve.measurement == what}
        varied = [settings[field] for field in fields if field in settings]
        assert settings["threads"] == 2
        metric = "seconds" if what == "preparation" else "ms_per_step"
        size = float(np.prod(varied))
        return {"metric": metric, "value": 3 * size**2, "added_mb": size**0.5}


@pytest.fixture(scope="module")
def rows():
    return list(measure_curves(Growing(), repeats=1, say=lambda line: None))


def test_every_curve_is_measured_at_all_points_and_fitted(rows):
    assert len(rows) == sum(len(curve.values) for curve in CURVES)
    fits = fit_curves(rows)
    assert [fit["task"] for fit in fits] == [curve.task for curve in CURVES]
    for fit in fits:
        assert fit["value"] == fit["value_at_the_end"] == pytest.approx(2)
        assert fit["added_mb"] == pytest.approx(0.5)


def test_points_without_a_logarithm_are_left_out():
    points = [(1, 0), (2, 4), (4, 8), (8, 16)]
    rows = [
        {"task": "scaling_batch", "x": x, "value": x, "added_mb": memory} for x, memory in points
    ]
    (fit,) = fit_curves(rows)
    assert (fit["value"], fit["added_mb"]) == (1, 1)
    (fit,) = fit_curves([{**row, "added_mb": 0} for row in rows])
    assert (fit["value"], "added_mb" in fit) == (1, False)


def test_fit_is_that_of_least_squares_on_logarithms():
    law = PowerLaw.fit([1, 2, 4], [1, 8, 4])
    # By hand: the logarithms to base 2 are (0, 0), (1, 3), (2, 2).
    assert law.exponent == pytest.approx(1.0)
    assert law.factor == pytest.approx(2 ** (2 / 3))
    np.testing.assert_allclose(law([1, 8]), [2 ** (2 / 3), 8 * 2 ** (2 / 3)])


def test_picture_is_a_png_with_and_without_workers(rows):
    workers = [{"task": "scaling_workers", "x": n, "value": 1000.0 * n} for n in (1, 2)]
    flat = [{**row, "added_mb": 0} for row in rows]
    for each in (rows + workers, flat[:6]):
        content = draw_scaling(each, "How cost grows")
        assert content.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", content[16:24])
        assert width > height > 500


def test_points_that_fail_are_told_and_left_out():
    class Failing(Growing):
        def measure(self, what, **settings):
            if settings.get("vocabulary_size") == 64_000:
                raise MeasurementError("exit code 1: MemoryError")
            return super().measure(what, **settings)

    told = []
    curve = next(curve for curve in CURVES if curve.field == "vocabulary_size")
    rows = list(measure_curves(Failing(), 1, [curve], say=lambda line: None, warn=told.append))
    assert [row["x"] for row in rows] == list(curve.values[:-1])
    assert told == ["ids in the vocabulary: 64,000 is left out, exit code 1: MemoryError"]


def test_workers_are_started_together_on_cores_of_their_own(monkeypatch):
    started = []

    def measure(self, what, environment=None, **settings):
        started.append((what, environment["TF_CONFIG"], self._prefix, settings))
        return {"value": 5.0}

    monkeypatch.setattr(Processes, "measure", measure)
    monkeypatch.setattr("training.benchmarks.scaling.available_cores", lambda: [0, 1])
    monkeypatch.setattr("training.benchmarks.processes.available_cores", lambda: [0, 1])
    told = []
    rows = list(measure_workers(2, 1, (1, 2, 3), say=lambda line: None, warn=told.append))
    assert told == ["3 worker processes left out: there are 2 cores."]
    assert [(row["task"], row["x"]) for row in rows] == [("scaling_workers", n) for n in (1, 2)]
    assert [what for what, *_ in started] == ["worker"] * 3
    assert started[0][1] == ""
    configs = sorted((json.loads(config) for _, config, *_ in started[1:]), key=str)
    assert [config["task"]["index"] for config in configs] == [0, 1]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len({str(prefix) for _, _, prefix, _ in started[1:]}) == 2 or not started[1][2]


def test_cluster_names_ports_of_the_loopback():
    first, second = map(json.loads, cluster(2))
    assert first["cluster"] == second["cluster"]
    addresses = first["cluster"]["worker"]
    assert len(set(addresses)) == 2
    assert all(address.startswith("127.0.0.1:") for address in addresses)


class CountingLoop:
    """A training loop that does nothing but count."""

    def __init__(self, model, batches, max_length=64):
        self.model, self.batches, self.max_length = model, batches, max_length
        self.runs = []

    def run(self, updates):
        self.runs.append(updates)


def test_step_is_timed_at_the_size_asked_for(monkeypatch):
    loops = []

    def make_loop(*arguments, **settings):
        loops.append(CountingLoop(*arguments, **settings))
        return loops[-1]

    monkeypatch.setattr(scaling_measurement, "make_loop", make_loop)
    row = measure_step(rows=2, length=5, repeats=2, threads=1, vocabulary_size=30)
    assert (row["batch"], row["metric"], row["reps"]) == ("2x5", "ms_per_step", 2)
    assert row["added_mb"] >= 0
    (loop,) = loops
    assert loop.model.vocabulary_size == 30
    assert loop.runs == [1, 3, 3, 3]  # a short one, a warm-up, two repeats
    labels = [loop.batches.batch(0, number)[1] for number in range(len(loop.batches))]
    assert [each.shape for each in labels] == [(1, 8)] + [(2, 5)] * 9
    assert all(4 <= each.min() <= each.max() < 30 for each in labels)


def test_preparation_makes_batches_of_as_many_lines(monkeypatch):
    monkeypatch.setattr(scaling_measurement, "_VOCABULARY", 400)
    monkeypatch.setattr(scaling_measurement, "_LEARNED_LINES", 50)
    row = scaling_measurement.measure_preparation(lines=30, repeats=2, threads=1)
    assert (row["batch"], row["metric"], row["reps"]) == (30, "seconds", 2)
    assert row["value"] > 0


def test_worker_alone_tells_its_rate(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    runs = []
    monkeypatch.setattr(
        scaling_measurement, "make_runner", lambda *_: (None, lambda: runs.append(time.sleep(0.01)))
    )
    data = write_short_sentences(tmp_path)
    row = measure_worker(config="tiny", batches=1, repeats=2, data=data)
    assert (row["metric"], len(row["spread"]), len(runs)) == ("tgt_tokens_per_s", 2, 3)
    assert 0 < row["value"] <= 341 * 5 / 0.01
