"""Rounds of contenders, with shell scripts in place of the peers."""

import pytest

from keras_transformer._utils.errors import UserError
from tests.benchmarks.fake_peers import FakeMeasure, make_peers
from training.benchmarks.comparison import Rounds, make_tasks, require_peers
from training.benchmarks.matrix_speed import find_peak
from training.benchmarks.processes import MeasurementError, Processes


@pytest.fixture
def peers(tmp_path):
    return make_peers(tmp_path / "peers")


def tasks(*kinds, names=(), with_peers=True, **changes):
    settings = {"batch_sizes": [32, 1], "beams": [1, 4], "sentences": None, **changes}
    return make_tasks(kinds, "tiny", **settings, with_peers=with_peers, names=names)


def compare(peers, tasks, measure=None, **settings):
    """Returns the rows, and the warnings about contenders that failed."""
    processes = Processes(threads=1)
    processes.measure = measure or FakeMeasure(100.0)
    warnings = []
    rounds = Rounds(
        tasks=tasks,
        processes=processes,
        peers=peers,
        work=peers / "work",
        data=peers / "data",
        report=lambda line: None,
        warn=warnings.append,
        **settings,
    )
    return list(rounds.rows()), warnings


def test_rounds_measure_each_contender_once_and_alternate_the_order(peers):
    names = ["loop", "PyTorch", "HF Marian"]
    rows, warnings = compare(peers, tasks("train", names=names), count=2, peak=50.0)
    order = ["keras_transformer loop", "PyTorch", "HF Marian"]
    assert [row["contender"] for row in rows] == order + order[::-1]
    assert [row["round"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["value"] for row in rows] == [100, 100, 50, 100, 100, 100]
    assert warnings == []
    # One peak for all contenders; the row of a peer has another one.
    assert [row.get("mfu") for row in rows[:3]] == [None, 0.5, 0.5]
    assert all(row["threads"] == 1 for row in rows)


def test_peer_scripts_get_options_and_variables(peers):
    names = ["HF Marian", "KerasHub"]
    rows, _ = compare(peers, tasks("train", names=names), batches=5, repeats=2)
    arguments = "--config tiny --repeats 2 --batches 5"
    assert [row["arguments"] for row in rows] == [
        f"train_hf.py {arguments}",
        f"train_keras.py --layers hub {arguments}",
    ]
    assert [row["variables"].split() for row in rows] == [["1", "1"], ["1", "1", "1"]]
    rows, _ = compare(peers, tasks("decode", names=["int8", "KerasHub"], beams=[4]))
    arguments = "--config tiny --repeats 3 --batch-size 32 --beams 4 --sentences 320"
    assert [row["arguments"] for row in rows[:2]] == [
        f"decode_ctranslate2.py --type int8 {arguments}",
        f"decode_keras_hub.py {arguments}",
    ]
    assert [row["variables"].split() for row in rows[:2]] == [
        ["1", "1", "16"],
        ["1", "1", "16", "1"],
    ]


def test_peer_that_fails_is_left_out_with_one_warning(peers):
    rows, warnings = compare(peers, tasks("train"), count=2)
    assert {row["contender"] for row in rows} == {
        "keras_transformer loop",
        "keras_transformer fit",
        "PyTorch",
        "HF Marian",
        "KerasHub",
        "Keras layers, tied",
    }
    assert len(rows) == 12
    first, second = warnings
    assert first.startswith("train tiny: OpenNMT-tf")
    assert first.endswith("exit code 3: ImportError: no such module")
    assert second.startswith("train tiny: JoeyNMT")
    assert "joeynmt/bin/python" in second


def test_contender_that_prints_no_row_is_left_out(peers):
    (peers / "pytorch" / "bin" / "python").write_text("#!/bin/sh\n")
    rows, warnings = compare(
        peers, tasks("train", names=["loop", "PyTorch"]), measure=lambda *_, **__: None
    )
    assert rows == []
    assert len(warnings) == 2
    for name, warning in zip(("keras_transformer loop", "PyTorch"), warnings, strict=True):
        assert name in warning
        assert "no result" in warning


def test_one_saved_model_is_measured_with_all_batch_sizes(peers):
    measure = FakeMeasure(100.0)
    (peers / "work").mkdir()

    def write(name, environment=None, **settings):
        if name == "write_decoder":
            (peers / "work" / settings["directory"]).mkdir()
        return measure(name, environment, **settings)

    rows, _ = compare(peers, tasks("decode", names=["keras_transformer xla"]), write)
    assert len(rows) == 4
    written = [settings for name, _, settings in measure.calls if name == "write_decoder"]
    assert [(each["beams"], each["kind"], each["xla"]) for each in written] == [
        (1, "ids", True),
        (4, "ids", True),
    ]
    decoded = [settings for name, _, settings in measure.calls if name == "decode"]
    assert [(each["batch_size"], each["beams"], each["limit"]) for each in decoded] == [
        (32, 1, None),
        (32, 4, 320),
        (1, 1, 100),
        (1, 4, 100),
    ]
    assert {each["data"] for each in decoded} == {str(peers / "data")}


def test_contenders_are_chosen_by_name_or_part_of_a_name():
    def names(*wanted, **settings):
        (task,) = tasks("decode", names=wanted, batch_sizes=[1], beams=[1], **settings)
        return [contender.name for contender in task.contenders]

    assert names("keras_transformer plain") == ["keras_transformer plain"]
    assert names("plain") == ["keras_transformer plain", "keras_transformer plain strings"]
    assert names("ctranslate2") == ["CTranslate2 float32", "CTranslate2 int8"]
    with pytest.raises(UserError, match=r"keras_transformer plain.*'Marian'"):
        names("Marian", with_peers=False)


def test_number_of_sentences_is_limited_by_the_option():
    assert [task.sentences for task in tasks("decode", sentences=200)] == [200, 200, 100, 100]


def test_peak_is_that_of_the_fastest_library(peers):
    processes = Processes(threads=1)
    processes.measure = measure = FakeMeasure(50.0, 80.0)
    assert find_peak(processes)["value"] == 80
    assert find_peak(processes, peers)["value"] == 123
    settings = [environment["TF_ENABLE_ONEDNN_OPTS"] for _, environment, _ in measure.calls]
    assert settings == ["0", "1"] * 2


def test_directory_that_was_not_set_up_is_refused_with_the_missing_file(tmp_path, peers):
    assert require_peers(peers) == peers
    (peers / "data" / "test.npz").unlink()
    with pytest.raises(UserError, match=r"peers: data/test\.npz .*setup\.sh"):
        require_peers(peers)
    with pytest.raises(UserError, match=r"nowhere: data/train\.npz"):
        require_peers(tmp_path / "nowhere")


def test_measurement_runs_in_another_process():
    settings = {"shapes": [[8, 8, 8]], "flops": 1}
    row = Processes(threads=1).measure(
        "peak", {"TF_ENABLE_ONEDNN_OPTS": "0"}, threads=1, **settings
    )
    assert (row["task"], row["metric"], row["config"]) == ("gemm", "gflops", "8x8x8")
    assert row["value"] > 0
    assert row["peer"] in ("numpy", "tensorflow onednn=0")
    with pytest.raises(MeasurementError, match="exit code 1: KeyError: 'nothing'"):
        Processes(threads=1).run(
            ["sh", "-c", "echo \"KeyError: 'nothing'\" >&2; exit 1"],
        )
