"""Reports in lines."""

import io
import os

import pytest

from keras_transformer.trainer.progress import PlainReport
from tests.trainer.progress.finished_training import make_result


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def report(stream, clock):
    report = PlainReport(stream, clock=clock)
    report.begin("CPU, float32", first_step=0, total_steps=1_000, epoch_steps=300)
    stream.truncate(0)
    stream.seek(0)
    return report


def update(report, clock, step, now):
    clock.now = now
    report.update(step, {"loss": 2.5, "learning_rate": 1e-3})


def steps(stream):
    return [int(line.split()[1].replace(",", "")) for line in stream.getvalue().splitlines()]


def test_stages_have_a_line_each_without_their_progress(stream):
    report = PlainReport(stream)
    report.stage("Reading train.en")
    report.advance(3, total=5)
    report.stage("Building the model")
    assert stream.getvalue() == "Reading train.en\nBuilding the model\n"


def test_lines_of_steps_are_ten_seconds_apart_except_for_the_first_and_the_last(
    report, stream, clock
):
    for step, now in [(1, 50), (2, 51), (3, 59.9), (4, 60), (5, 69), (6, 71), (1_000, 71.5)]:
        update(report, clock, step, now)
    assert steps(stream) == [1, 4, 6, 1_000]


def test_line_has_step_epoch_metrics_and_time_left(report, stream, clock):
    update(report, clock, 300, now=60)
    update(report, clock, 400, now=80)
    assert stream.getvalue() == (
        "step 300 of 1,000, epoch 1 of 4, loss 2.5000\n"
        "step 400 of 1,000, epoch 2 of 4, loss 2.5000, 2:00 left\n"
    )


def test_last_step_before_an_interruption_is_written(report, stream, clock):
    with report:
        update(report, clock, 1, now=0)
        update(report, clock, 2, now=1)
        assert steps(stream) == [1]
    assert steps(stream) == [1, 2]


def test_other_work_is_reported_once(report, stream):
    for _ in range(3):
        report.busy("Evaluating")
        report.busy("Saving")
    assert stream.getvalue() == "Evaluating\nSaving\n"


def test_control_characters_in_messages_are_escaped(report, stream):
    report.say("first\nsecond\x85 \x1b[31m")
    assert stream.getvalue() == "first\\nsecond\\x85 \\x1b[31m\n"


def test_summary_is_written_to_the_stream_of_results(stream):
    results = io.StringIO()
    PlainReport(stream, results).end(make_result())
    assert stream.getvalue() == ""
    assert "12,000" in results.getvalue()


def test_resumed_training_starts_at_its_step(stream, clock):
    report = PlainReport(stream, clock=clock)
    report.begin("CPU", first_step=600, total_steps=1_000, epoch_steps=300)
    update(report, clock, 610, now=1)
    assert "step 610 of 1,000, epoch 3 of 4" in stream.getvalue()


def test_closed_pipe_does_not_stop_the_training():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1) as stream:
        with PlainReport(stream) as report:
            report.stage("Building the model")
            report.begin("CPU", first_step=0, total_steps=2, epoch_steps=2)
            report.update(2, {"loss": 1.0})
            report.say("Saved")
            report.end(make_result())
        with pytest.raises(BrokenPipeError):
            stream.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
