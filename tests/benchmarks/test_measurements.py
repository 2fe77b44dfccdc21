"""Measurements in this process, with a very small model."""

import io
import json
import os
import pathlib
import stat
import sys

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import BeamSearch
from tests.benchmarks.small_workload import write_short_sentences
from training.benchmarks import start_time
from training.benchmarks.array_batches import ArrayBatches
from training.benchmarks.decoding_speed import measure_decoding, open_ids, write_decoder
from training.benchmarks.matrix_speed import measure_peak
from training.benchmarks.models import BENCH_MODELS, BenchModel
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.start_time import find_version, measure_start
from training.benchmarks.training_speed import measure_training

SMALL = BenchModel(
    num_layers=1, hidden_dim=8, intermediate_dim=8, num_heads=1, dropout=0.1, vocabulary_size=60
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_short_sentences(tmp_path_factory.mktemp("data"))


def test_models_have_the_operations_and_weights_of_the_paper():
    # 4 · (6 · 128² + 2 · 128 · 256) for each side, and 128 · 8000 for the logits.
    assert BENCH_MODELS["tiny"].training_flops(100, 10) == 6 * (655_360 * 110 + 1_024_000 * 10)
    assert BENCH_MODELS["base"].training_flops(1, 1) == 288_817_152
    model = BENCH_MODELS["tiny"].make()
    assert model.count_params() == 2_349_056
    assert model.config.normalize_first is False
    assert (model.config.activation, model.config.share_embeddings) == ("relu", "all")


@pytest.mark.parametrize("way", ["loop", "fit"])
def test_training_row_counts_target_tokens_without_padding(data, way):
    row = measure_training(
        config="tiny", way=way, batches=1, repeats=3, threads=1, data=data, model=SMALL
    )
    assert row["peer"] == f"keras_transformer {way}"
    assert (row["task"], row["config"], row["batch"]) == ("train", "tiny", "4096tok")
    assert row["metric"] == "tgt_tokens_per_s"
    assert row["value"] == pytest.approx(np.median(row["spread"]), rel=1e-3)
    # 341 rows with four ids and END.
    assert row["value"] * row["ms_per_step"] / 1e3 == pytest.approx(341 * 5, rel=0.1)
    assert (row["reps"], row["n_batches"], len(row["spread"])) == (3, 1, 3)
    assert row["peak_rss_mb"] > 50
    assert 0 <= row["sys_share"] <= 1
    assert row["wall_value"] > 0
    json.dumps(row)


def test_array_batches_keep_their_order_in_every_epoch():
    given = [tuple(np.full([1, 2], 10 * n + side, np.int32) for side in range(3)) for n in (1, 2)]
    dataset = ArrayBatches(given).dataset(epochs=2)
    seen = [
        (int(inputs["source"][0, 0]), int(inputs["target"][0, 0]), int(labels[0, 0]))
        for inputs, labels in dataset
    ]
    assert seen == [(10, 11, 12), (20, 21, 22)] * 2


def write_ids(directory, data, **changes):
    """Writes a SavedModel from ids to ids, and returns its settings."""
    settings = {"config": "tiny", "kind": "ids", "beams": 1, "xla": False, "data": data, **changes}
    write_decoder(directory, model=SMALL, **settings)
    return settings


@pytest.mark.slow
def test_plain_and_compiled_search_generate_the_same_sixteen_tokens(tmp_path, data):
    for name in ("plain", "xla"):
        write_ids(tmp_path / name, data, xla=name == "xla")
    rows = [[5, 6, 3], [7, 3], [8, 9, 10, 3]]
    plain = open_ids(tmp_path / "plain")(rows)
    assert [len(ids) for ids in plain] == [16] * 3
    assert all(0 not in ids for ids in plain)
    # The compiled search gets longer rows and a fourth one, and returns neither.
    assert open_ids(tmp_path / "xla", batch_size=4)(rows) == plain


def test_decoding_row_counts_sentences_and_forced_tokens(tmp_path):
    data = write_short_sentences(tmp_path / "data", pairs=5)
    settings = write_ids(tmp_path / "model", data, beams=4)
    row = measure_decoding(
        tmp_path / "model", batch_size=4, limit=None, repeats=3, threads=2, **settings
    )
    assert (row["peer"], row["task"]) == ("keras_transformer plain", "infer_beam4")
    assert (row["batch"], row["n"], row["forced_len"], row["mean_len"]) == (4, 5, 16, 16)
    assert row["metric"] == "sentences_per_s"
    assert row["value"] == pytest.approx(sorted(row["spread"])[1], rel=1e-2)
    assert row["out_tokens_per_s"] == pytest.approx(16 * row["value"], rel=1e-2)
    # With two threads, wall-clock time counts.
    assert row["wall_value"] == pytest.approx(row["value"], rel=1e-2)


def test_decoding_of_strings_uses_an_export(tmp_path, data, phrases_export, monkeypatch):
    made = []
    monkeypatch.setattr(
        "keras_transformer.export.export_model",
        lambda trained, directory, **settings: made.append((trained, directory, settings)),
    )
    settings = {"config": "tiny", "kind": "strings", "beams": 4, "xla": False, "data": data}
    model = BenchModel(
        num_layers=1,
        hidden_dim=8,
        intermediate_dim=8,
        num_heads=1,
        dropout=0.1,
        vocabulary_size=320,
    )
    write_decoder(tmp_path, model=model, **settings)
    ((trained, directory, options),) = made
    assert directory == tmp_path
    assert trained.tokenizers.source.vocabulary_size == 320
    assert isinstance(options["search"], BeamSearch)
    assert (options["search"].lengths.minimum, options["search"].lengths.maximum) == (16, 16)
    assert options["xla"] is False
    row = measure_decoding(phrases_export, batch_size=2, limit=4, repeats=1, threads=1, **settings)
    assert (row["peer"], row["n"]) == ("keras_transformer plain strings", 4)


def test_peak_is_that_of_the_fastest_product():
    row = measure_peak(threads=1, shapes=[(4, 4, 4), (64, 64, 64)], flops=1)
    assert row["config"] == "64x64x64"
    assert row["metric"] == "gflops"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Replacements for Python and the command, which answer at once."""
    for name in ("python", "keras-transformer"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\nread line\necho $line\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    export = tmp_path / "export" / "2"
    export.mkdir(parents=True)
    (export / "saved_model.pb").write_text("")
    return tmp_path


def test_start_is_measured_until_the_first_line(programs):
    ours, bare = measure_start(programs / "export", Processes(1), repeats=3, config="tiny")
    assert (ours["contender"], bare["contender"]) == (
        "keras_transformer translate",
        "bare import and load",
    )
    for row in (ours, bare):
        assert (row["task"], row["metric"], len(row["spread"])) == ("start", "seconds", 3)
        assert row["value"] == sorted(row["spread"])[1]
    (programs / "bin" / "keras-transformer").write_text("#!/bin/sh\nexit 2\n")
    with pytest.raises(MeasurementError, match=r"keras-transformer .*exit code 2"):
        measure_start(programs / "export", Processes(1), repeats=1, config="tiny")


def test_bare_program_answers_like_the_export(phrases_export, monkeypatch, capsys):
    version = find_version(phrases_export)
    monkeypatch.setattr(sys, "argv", ["-c", os.fspath(version)])
    monkeypatch.setattr(sys, "stdin", io.StringIO("zwei rote Hunde\n"))
    exec(start_time._BARE, {})
    assert capsys.readouterr().out == "two red dogs\n"


def test_highest_version_of_an_export_is_found(tmp_path):
    for name in ("9", "10", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_text("")
    assert find_version(tmp_path) == tmp_path / "10"
    assert find_version(tmp_path / "9") == tmp_path / "9"
    with pytest.raises(UserError, match=r"empty: saved_model\.pb"):
        find_version(pathlib.Path(tmp_path / "empty"))
