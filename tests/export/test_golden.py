"""Golden pairs replayed in clean processes. Each test takes seconds, so each checks much."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

from keras_transformer._utils.errors import UserError
from keras_transformer.export import inspection, replay
from keras_transformer.export.golden import make_golden_pair, replay_golden_pairs
from keras_transformer.export.manifest import read_manifest, write_manifest
from tests.export.small_export import NAMES, TEXTS, manifest_content, save_module


def refusal_of(directory):
    with pytest.raises(UserError) as refusal:
        replay_golden_pairs(directory)
    message = str(refusal.value)
    assert message.startswith(f"{directory}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "array",
    [
        np.array([b"yes", "grüße".encode(), b"", b"\xff\x00", b"nul\x00 inside\x00"], object),
        np.array([[0.1, -1e-30], [np.inf, -np.inf]], np.float32),
        np.array([[[2**31 - 1, -(2**31)]]], np.int32),
        np.array(0.5, np.float32),
        np.array(7, np.int32),
        np.array([], object),
        np.array([True, False]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_from_json_restores_arrays_of_to_json(array):
    dtype = array.dtype.type
    back = replay.from_json(replay.to_json(array), dtype)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tolist() == array.tolist()


def test_to_json_names_nan_and_infinity():
    assert replay.to_json(np.array([np.nan, -np.inf])) == ["NaN", "-Infinity"]
    assert np.isnan(replay.from_json(["NaN"], np.float32)).all()


def test_replay_reports_equal_and_different_answers(export):
    manifest = read_manifest(export)
    right = manifest["golden"]
    assert [pair["signature"] for pair in right] == list(NAMES)
    by_name = {pair["signature"]: pair for pair in right}

    def changed(signature, **outputs):
        pair = by_name[signature]
        return {**pair, "outputs": {**pair["outputs"], **outputs}}

    scores = by_name["serving_default"]["outputs"]["score"]
    wrong = {
        "another text": changed("serving_default", text=["GUTEN", "", "GRÜSSE"]),
        "another number": changed("serving_default", score=[scores[0] + 0.01, *scores[1:]]),
        "another integer": changed("score", tokens=[4, 6]),
        "fewer rows": changed("encode", embedding=by_name["encode"]["outputs"]["embedding"][:1]),
        "an output that is not there": changed("encode", more=[1]),
        "a signature that is not there": {**by_name["encode"], "signature": "decode"},
        "an input that is not there": {**by_name["encode"], "inputs": {"texts": ["a"]}},
        "an input of another kind": {**by_name["encode"], "inputs": {"text": 3}},
    }
    nearly = changed("serving_default", score=[score * 1.00005 for score in scores])
    content = {key: manifest[key] for key in manifest_content([])}
    write_manifest(export, {**content, "golden": [*right, nearly, *wrong.values()]})

    rows = replay_golden_pairs(export)
    assert [row.ok for row in rows] == [True] * 7 + [False] * len(wrong)
    assert [row.signature for row in rows[:6]] == list(NAMES)
    first = rows[0]
    assert first.input == {"text": ["guten", "", "grüße"]}
    assert first.got["text"] == ["GUTEN", "", "GRüßE"]
    assert rows[4].got["target_tokens"] == [[{"b64": "/yBkaW5uZXI="}]]

    differences = {name: row.difference for name, row in zip(wrong, rows[7:], strict=True)}
    assert differences["another text"] == ("text", "GRÜSSE", "GRüßE")
    assert differences["another number"][0] == "score"
    assert differences["another integer"] == ("tokens", 6, 5)
    assert differences["fewer rows"][0] == "embedding"
    assert differences["an output that is not there"] == ("more", [1], None)
    assert differences["a signature that is not there"][0] == "error"
    assert differences["an input that is not there"][0] == "error"
    assert differences["an input of another kind"][0] == "error"


def write_text_export(directory, function, outside_core, inputs=("Straße",)):
    """Writes an export with one signature, which need not be one of the contract."""
    module = tf.Module()
    module.serve = tf.function(lambda text: {"text": function(text)}, input_signature=[TEXTS])
    save_module(module, directory, module.serve)
    pairs = [
        make_golden_pair("serving_default", {"text": [text]}, {"text": [text.casefold()]})
        for text in inputs
    ]
    write_manifest(directory, manifest_content(pairs, ops={"outside_core": outside_core}))
    return directory


def test_replay_imports_tensorflow_text_only_if_needed(tmp_path, monkeypatch):
    """Otherwise the error says what to do."""
    fold = tensorflow_text.case_fold_utf8
    honest = write_text_export(tmp_path / "Grüße & mehr" / "1", fold, ["CaseFoldUTF8"])
    # A path that is not ASCII, and a directory and a PYTHONPATH with another module of that name.
    (tmp_path / "tensorflow_text.py").write_text("raise SystemExit('slipped in')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (row,) = replay_golden_pairs(os.path.relpath(honest))
    assert (row.ok, row.got) == (True, {"text": ["strasse"]})

    silent = write_text_export(tmp_path / "2", fold, [])
    message = refusal_of(silent)
    assert "damaged or not loadable: " in message
    assert "Op type not registered 'CaseFoldUTF8'" in message
    assert "import tensorflow_text" in message


def test_replay_finds_libraries_of_this_process(tmp_path, monkeypatch):
    """On clusters TensorFlow may be on PYTHONPATH, which an isolated process ignores."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    nothing = subprocess.run([bare, "-I", "-c", "import numpy"], capture_output=True)
    assert b"No module named 'numpy'" in nothing.stderr
    fold = tensorflow_text.case_fold_utf8
    (row,) = replay_golden_pairs(write_text_export(tmp_path / "1", fold, ["CaseFoldUTF8"]))
    assert (row.ok, row.got) == (True, {"text": ["strasse"]})


def test_replay_without_tensorflow_text_raises_an_error(written_export, tmp_path, monkeypatch):
    """Runs in an environment with every package but tensorflow_text."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    for entry in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith("tensorflow_text"):
            (packages / entry.name).symlink_to(entry)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    monkeypatch.setattr(inspection, "_library_directories", list)
    fold = tensorflow_text.case_fold_utf8
    message = refusal_of(write_text_export(tmp_path / "1", fold, ["CaseFoldUTF8"]))
    assert "holds ops of tensorflow_text, which cannot be imported here (ModuleNotFound" in message
    assert "pip install tensorflow-text" in message


def abort(text):
    """Ends the process at the second golden pair."""

    def end():
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="over")]):
            return tf.identity(text)

    return tf.cond(tf.reduce_all(text == "end"), end, lambda: tf.strings.lower(text))


def test_replay_of_a_graph_that_ends_its_process_raises_an_error(tmp_path):
    directory = write_text_export(tmp_path / "1", abort, [], ("A", "end"))
    assert "damaged or not loadable, ended by SIGABRT: " in refusal_of(directory)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("true", "damaged or not loadable: its process ended after 0 of 6 golden pairs."),
        ("echo", "damaged or not loadable: its process printed no JSON."),
        ("false", "damaged or not loadable: it printed nothing."),
    ],
)
def test_replay_without_answers_raises_an_error(written_export, monkeypatch, program, message):
    monkeypatch.setattr(sys, "executable", shutil.which(program))
    assert message in refusal_of(written_export)
