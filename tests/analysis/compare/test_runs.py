"""Lines of the speed log that count for speed and memory."""

import pytest

from keras_transformer.analysis.compare import runs
from keras_transformer.analysis.compare.runs import SpeedLog


@pytest.fixture
def memory(monkeypatch):
    """Peak memory of the process: 100, 200, 300, … at each call."""
    numbers = iter(range(100, 1000, 100))
    monkeypatch.setattr(runs, "peak_memory", lambda: next(numbers))


@pytest.mark.usefixtures("memory")
def test_first_line_of_each_process_does_not_count_for_speed(tmp_path):
    for rates in ([1.0, 50.0, 60.0], [2.0, 90.0]):
        log = SpeedLog(tmp_path / "speed.jsonl")
        for number, rate in enumerate(rates):
            log.on_train_batch_end(number, {"tokens_per_second": rate})
    log.on_train_end()
    assert log.summary() == {"tokens_per_second": 60.0, "peak_memory_mb": 500}


@pytest.mark.usefixtures("memory")
def test_short_run_uses_the_lines_that_it_has(tmp_path):
    log = SpeedLog(tmp_path / "speed.jsonl")
    assert log.summary() == {"tokens_per_second": None, "peak_memory_mb": None}
    log.on_train_end()
    assert log.summary() == {"tokens_per_second": None, "peak_memory_mb": 100}
    log.on_train_batch_end(0, {"tokens_per_second": 7.0})
    (tmp_path / "speed.jsonl").open("a").write('{"at": "step", "tok')
    assert log.summary() == {"tokens_per_second": 7.0, "peak_memory_mb": 200}
