"""Short fuzzing of the parsers of untrusted bytes, by random changes of the committed seeds.

`python -m training.reliability.fuzz` runs many more inputs, with coverage as a guide.
"""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.export.manifest import check_files, read_manifest
from tests.export.small_export import write_small_export
from training.reliability.fuzz.__main__ import row_of
from training.reliability.fuzz.findings import Recorder
from training.reliability.fuzz.fuzzing import FuzzResult, run_mutations
from training.reliability.fuzz.mutation import mutations
from training.reliability.fuzz.targets import TARGETS, UnclearError, attempt
from training.reliability.sealing import seal_export

# Executions of a target; reading a graph or compiling a model of SentencePiece takes longer.
_RUNS = dict.fromkeys(TARGETS, 300) | {"saved_model": 30, "sentencepiece": 40}


@pytest.mark.parametrize("name", TARGETS)
def test_changed_seeds_are_read_or_refused_in_one_plain_line(name, tmp_path):
    result = run_mutations(name, tmp_path, _RUNS[name])
    found = [path.with_suffix(".txt").read_text() for path in result.findings]
    assert result.is_clean, "\n".join(found)
    assert result.executions == _RUNS[name]
    assert 0 < result.accepted < result.executions, "the seeds must reach both outcomes"
    assert name in row_of(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_changed_seeds_are_read_or_refused_in_one_plain_line(name, tmp_path):
    result = run_mutations(name, tmp_path, 50 * _RUNS[name])
    found = [path.with_suffix(".txt").read_text() for path in result.findings]
    assert result.is_clean, "\n".join(found)


def test_recorder_keeps_the_first_input_of_each_kind_of_error(tmp_path):
    def read(data):
        if data.startswith(b"u"):
            raise UserError("refused.")
        return 1 / (data[0] - 98)

    recorder = Recorder(tmp_path / "reader")
    for data in (b"a", b"b1", b"b2", b"u"):
        recorder.run(read, data)
    assert recorder.counts == (4, 1)
    (finding,) = recorder.findings
    assert finding.read_bytes() == b"b1"
    assert "ZeroDivisionError" in finding.with_suffix(".txt").read_text()
    again = Recorder(tmp_path / "reader")  # a process that continues
    again.run(read, b"a")
    assert again.counts == (5, 2)


def test_a_message_that_is_not_one_plain_line_is_a_finding():
    def read(data):
        error = UserError("refused.")
        error.mistakes = ("two\nlines",)
        raise error

    with pytest.raises(UnclearError):
        attempt(read, b"")


def test_findings_and_crashes_are_not_clean(tmp_path):
    assert FuzzResult("recipe", 1, 1, (), (), 1.0).is_clean
    assert not FuzzResult("recipe", 1, 1, (tmp_path,), (), 1.0).is_clean
    assert not FuzzResult("recipe", 1, 1, (), (tmp_path,), 1.0).is_clean


def test_mutations_are_the_same_every_time_and_differ_from_each_other():
    first, second = (list(mutations([b"key: value"], [b"null"], 200, 20)) for _ in range(2))
    assert first == second
    assert len(set(first)) > 150


def test_seal_of_an_adversary_is_accepted(tmp_path):
    """Otherwise attacks on sealed files would only test the checksums."""
    export = write_small_export(tmp_path / "small" / "1")
    warmup = export / "assets.extra" / "tf_serving_warmup_requests"
    warmup.write_bytes(warmup.read_bytes() + b"\0")
    with pytest.raises(UserError):
        check_files(export, read_manifest(export))
    seal_export(export)
    check_files(export, read_manifest(export))
