"""Rounds of all contenders, with peers that are shell scripts."""

import re

import pytest

from keras_transformer._utils.errors import UserError
from tests.bench.fake_peers import FakeMeasure, make_peers
from training.benchmarks.cells import make_cells
from training.benchmarks.comparison import Comparison, require_peers
from training.benchmarks.peak import find_peak
from training.benchmarks.processes import MeasurementError, Processes


@pytest.fixture
def peers(tmp_path):
    return make_peers(tmp_path / "peers")


def cells(*tasks, wanted=(), with_peers=True, **changes):
    settings = {"batch_sizes": [32, 1], "beams": [1, 4], "sentences": None, **changes}
    return make_cells(tasks, "tiny", **settings, with_peers=with_peers, wanted=wanted)


def compare(peers, cells, measure=None, **settings):
    """Returns the rows, and what was said of contenders that failed."""
    processes = Processes(threads=1)
    processes.measure = measure or FakeMeasure(100.0)
    warnings = []
    comparison = Comparison(
        cells=cells,
        processes=processes,
        peers=peers,
        work=peers / "work",
        data=peers / "data",
        say=lambda line: None,
        warn=warnings.append,
        **settings,
    )
    return list(comparison.rows()), warnings


def test_rounds_measure_each_contender_once_to_and_fro(peers):
    wanted = ["loop", "PyTorch", "HF Marian"]
    rows, warnings = compare(peers, cells("train", wanted=wanted), rounds=2, peak=50.0)
    order = ["keras_transformer loop", "PyTorch", "HF Marian"]
    assert [row["contender"] for row in rows] == order + order[::-1]
    assert [row["round"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["value"] for row in rows] == [100, 100, 50, 100, 100, 100]
    assert warnings == []
    # One peak for all, whatever the peer has found.
    assert [row.get("mfu") for row in rows[:3]] == [None, 0.5, 0.5]
    assert all(row["threads"] == 1 for row in rows)


def test_peers_get_the_work_threads_and_switches_of_their_own_script(peers):
    names = ["HF Marian", "KerasHub"]
    rows, _ = compare(peers, cells("train", wanted=names), batches=5, repeats=2)
    arguments = "--config tiny --reps 2 --n 5"
    assert [row["arguments"] for row in rows] == [
        f"train_hf.py {arguments}",
        f"train_keras.py --impl hub {arguments}",
    ]
    assert [row["variables"] for row in rows] == ["1 1 []", "1 1 1 []"]
    rows, _ = compare(peers, cells("decode", wanted=["int8", "KerasHub"], beams=[4]))
    arguments = "--config tiny --reps 3 --batch 32 --beam 4 --limit 320"
    assert [row["arguments"] for row in rows[:2]] == [
        f"infer_ct2.py --type int8 {arguments}",
        f"infer_hub.py {arguments}",
    ]
    assert [row["variables"] for row in rows[:2]] == ["1 1 16 []", "1 1 16 1 []"]


def test_peers_that_fail_are_told_once_and_left_out(peers):
    rows, warnings = compare(peers, cells("train"), rounds=2)
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
    assert first == ("train tiny: OpenNMT-tf is left out, exit code 3: ImportError: no such module")
    assert re.fullmatch(r"train tiny: JoeyNMT is left out, .*vj/bin/python.*", second)


def test_contenders_that_print_nothing_are_left_out(peers):
    (peers / "vt" / "bin" / "python").write_text("#!/bin/sh\n")
    rows, warnings = compare(
        peers, cells("train", wanted=["loop", "PyTorch"]), measure=lambda *_, **__: None
    )
    assert rows == []
    assert warnings == [
        f"train tiny: {name} is left out, it printed no result"
        for name in ("keras_transformer loop", "PyTorch")
    ]


def test_ours_are_measured_with_one_saved_model_for_all_batch_sizes(peers):
    measure = FakeMeasure(100.0)
    (peers / "work").mkdir()

    def write(what, environment=None, **settings):
        if what == "write_decoder":
            (peers / "work" / settings["directory"]).mkdir()
        return measure(what, environment, **settings)

    rows, _ = compare(peers, cells("decode", wanted=["keras_transformer xla"]), write)
    assert len(rows) == 4
    written = [settings for what, _, settings in measure.asked if what == "write_decoder"]
    assert [(each["beams"], each["kind"], each["xla"]) for each in written] == [
        (1, "ids", True),
        (4, "ids", True),
    ]
    decoded = [settings for what, _, settings in measure.asked if what == "decode"]
    assert [(each["batch_size"], each["beams"], each["limit"]) for each in decoded] == [
        (32, 1, None),
        (32, 4, 320),
        (1, 1, 100),
        (1, 4, 100),
    ]
    assert {each["data"] for each in decoded} == {str(peers / "data")}


def test_contenders_are_chosen_by_name_or_part_of_it():
    def names(*wanted, **settings):
        (cell,) = cells("decode", wanted=wanted, batch_sizes=[1], beams=[1], **settings)
        return [contender.name for contender in cell.contenders]

    assert names("keras_transformer plain") == ["keras_transformer plain"]
    assert names("plain") == ["keras_transformer plain", "keras_transformer plain strings"]
    assert names("ctranslate2") == ["CTranslate2 float32", "CTranslate2 int8"]
    with pytest.raises(UserError, match="No contender is called 'Marian'; there are keras_tr"):
        names("Marian", with_peers=False)


def test_fewer_sentences_can_be_asked_for():
    assert [cell.sentences for cell in cells("decode", sentences=200)] == [200, 200, 100, 100]


def test_peak_is_the_best_of_all_libraries(peers):
    processes = Processes(threads=1)
    processes.measure = measure = FakeMeasure(50.0, 80.0)
    assert find_peak(processes)["value"] == 80
    assert find_peak(processes, peers)["value"] == 123
    settings = [environment["TF_ENABLE_ONEDNN_OPTS"] for _, environment, _ in measure.asked]
    assert settings == ["0", "1"] * 2


def test_folder_that_was_not_set_up_names_what_is_missing(tmp_path, peers):
    assert require_peers(peers) == peers
    (peers / "data" / "test.npz").unlink()
    with pytest.raises(UserError, match=r"peers: data/test.npz is not there. Give the folder that"):
        require_peers(peers)
    with pytest.raises(UserError, match=r"nowhere: common.py is not there"):
        require_peers(tmp_path / "nowhere")


def test_measurement_runs_in_a_process_of_its_own():
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
