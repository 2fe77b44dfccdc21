"""Export into a version directory, which is complete and verified, or does not exist."""

import json
import os
import resource
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import TextEncoder
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import (
    FORMATS,
    ExportFormat,
    TrainedModel,
    export_model,
    register_export_format,
    verify_export,
)
from keras_transformer.export.formats import saved_model
from keras_transformer.export.golden import GoldenRow
from keras_transformer.export.manifest import read_manifest
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.inference import load
from keras_transformer.inference.text_model import TextModel
from keras_transformer.text import ByteTokenizer, TokenizerPair
from tests import phrases

SIGNATURES = {"serving_default", "n_best", "sample", "score", "attention", "encode"}
TEXTS = [source for source, _ in phrases.make_pairs()[::9]] + ["", "Hund", "x" * 500]


@pytest.fixture
def encoder():
    """An untrained model that is exported quickly."""
    model = TextEncoder.from_size("tiny", num_layers=1, num_classes=2, **phrases.SMALL)
    return TrainedModel(model, TokenizerPair(ByteTokenizer()), labels=("no", "yes"))


def attributes(directory):
    graph = read_meta_graph(directory).graph_def
    functions = graph.library.function
    return {name for function in functions for name in function.attr} | {
        name for function in functions for node in function.node_def for name in node.attr
    }


def test_export_gives_the_answers_of_the_model_in_memory(functions, phrases_export):
    export = load(phrases_export)
    assert set(export.signatures) >= SIGNATURES
    mine = functions["n_best"](text=tf.constant(TEXTS))
    theirs = export.signatures["n_best"](text=tf.constant(TEXTS))
    assert mine["text"].numpy().tolist() == theirs["text"].numpy().tolist()
    np.testing.assert_allclose(mine["score"], theirs["score"], rtol=1e-5, atol=1e-5)


def test_export_directory_holds_version_manifest_and_warmup(phrases_export):
    assert [path.name for path in phrases_export.iterdir()] == ["1"]
    version = phrases_export / "1"
    manifest = json.loads((version / "assets.extra" / "manifest.json").read_text())
    assert (manifest["name"], manifest["version"], manifest["kind"]) == (
        "phrases",
        1,
        "Transformer",
    )
    assert manifest["recipe"] == {"task": "phrases"}
    assert manifest["quality"] == {"exact_match": 1.0}
    assert manifest["search"]["kind"] == "BeamSearch"
    assert manifest["search"]["beams"] == 4
    assert manifest["search"]["lengths"]["maximum"] == 40
    assert manifest["limits"]["tokens"] == 64
    assert manifest["tokenizers"]["source"]["kind"] == "sentencepiece"
    assert {pair["signature"] for pair in manifest["golden"]} >= SIGNATURES
    texts = manifest["golden"][0]["outputs"]["text"]
    assert "two red dogs" in texts
    assert not manifest["xla"]
    assert "SentencepieceTokenizeOp" in manifest["ops"]["outside_core"]
    assert (version / "assets.extra" / "tf_serving_warmup_requests").stat().st_size > 100


def test_export_by_default_has_no_xla(phrases_export):
    """TensorFlow Serving refuses a graph with parts that XLA must compile."""
    assert "_XlaMustCompile" not in attributes(phrases_export / "1")


def test_export_with_bfloat16_weights_has_half_the_size(bytes_export):
    weights = read_manifest(bytes_export / "7")["weights"]
    assert weights["dtype"] == "bfloat16"
    assert weights["difference"]["texts"] == len(saved_model.BUILT_IN_EXAMPLES)
    assert 0 < weights["difference"]["largest_difference_of_scores"] < 0.5
    data = bytes_export / "7" / "variables" / "variables.data-00000-of-00001"
    assert data.stat().st_size < 2.5 * weights["parameters"]


def test_export_with_int8_weights_has_a_quarter_of_the_size_and_one_signature(encoder, tmp_path):
    small = export_model(encoder, tmp_path / "small", weights="int8", signatures=["embed"])
    manifest = read_manifest(small)
    assert manifest["weights"]["dtype"] == "int8"
    assert manifest["signatures"] == ["encode"]
    parameters = manifest["weights"]["parameters"]
    assert parameters == encoder.model.count_params()
    data = small / "variables" / "variables.data-00000-of-00001"
    assert parameters < data.stat().st_size < 2.5 * parameters  # vectors and scales are float32
    assert verify_export(small).checks[-1].ok
    model, export = TextModel.of(encoder), load(small)
    assert export.offers == ("embed",)
    assert list(export.signatures) == ["encode"]
    expected, found = model.embed(TEXTS), export.embed(TEXTS)
    assert 0 < np.max(np.abs(found - expected)) < 0.1 * np.max(np.abs(expected))
    with pytest.raises(UserError, match="does not offer `classify`"):
        export.classify("a")


@pytest.mark.slow
def test_export_with_one_signature_still_translates(tmp_path):
    search = SearchSettings(beams=1, max_length=4)
    settings = {"search": search, "signatures": ["translate"], "weights": "int8"}
    path = export_model(phrases.make_bytes_model(), tmp_path / "bytes", **settings)
    export = load(path)
    assert export.offers == ("translate", "generate")
    assert len(export.translate(["a", "b"])) == 2
    assert read_manifest(path)["weights"]["difference"]["texts"] > 0
    with pytest.raises(UserError, match="no signature 'sample'"):
        export.translate("a", temperature=1.0)


@pytest.mark.parametrize("names", [["translate"], [], "encode", ["n_best", "encode"]])
def test_export_of_signatures_that_the_model_lacks_raises_an_error(encoder, tmp_path, names):
    with pytest.raises(UserError, match="`signatures` must be"):
        export_model(encoder, tmp_path / "x", signatures=names)
    assert not (tmp_path / "x").exists()


def test_portable_export_loads_without_tensorflow_text(bytes_export, phrases_run, tmp_path):
    """It needs a tokenizer of bytes."""
    script = (
        "import sys, tensorflow as tf; f = tf.saved_model.load(sys.argv[1]).signatures;"
        "print(f['serving_default'](text=tf.constant(['a', '']))['text'].shape);"
        "assert 'tensorflow_text' not in sys.modules"
    )
    command = [sys.executable, "-I", "-c", script, bytes_export / "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "(2,)\n", done.stderr
    with pytest.raises(
        UserError, match=r"needs a tokenizer of bytes: .* 'sentencepiece' tokenizer"
    ):
        export_model(TrainedModel.load(phrases_run), tmp_path / "phrases", portable=True)
    assert not (tmp_path / "phrases").exists()


@pytest.mark.slow
def test_export_with_xla_has_xla_in_its_graph(tmp_path):
    search = SearchSettings(beams=1, max_length=4)
    path = export_model(phrases.make_bytes_model(), tmp_path / "fast", search=search, xla=True)
    assert "_XlaMustCompile" in attributes(path)
    assert json.loads((path / "assets.extra" / "manifest.json").read_text())["xla"]


def test_export_with_different_answers_leaves_nothing_behind(encoder, tmp_path, monkeypatch):
    different = GoldenRow("encode", {}, {"embedding": [[0.1]]}, {"embedding": [[0.2]]}, ok=False)
    monkeypatch.setattr(saved_model, "replay_golden_pairs", lambda directory: [different])
    with pytest.raises(RuntimeError, match="different answers"):
        export_model(encoder, tmp_path / "models" / "bytes")
    assert not (tmp_path / "models" / "bytes").exists()


def test_export_on_a_full_disk_leaves_nothing_behind(encoder, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises((OSError, tf.errors.OpError)):
            export_model(encoder, tmp_path / "bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "bytes").exists()


def test_export_of_a_run_directory_takes_the_next_version_and_never_overwrites(encoder, tmp_path):
    directory = tmp_path / "encoder"
    (directory / "3").mkdir(parents=True)
    (directory / "latest").mkdir()
    encoder.save(tmp_path / "run")
    path = export_model(tmp_path / "run", directory, weights="bfloat16")
    assert path == directory / "4"
    assert read_manifest(path)["kind"] == "TextEncoder"
    assert read_manifest(path)["weights"]["dtype"] == "bfloat16"
    with pytest.raises(UserError, match="exists already"):
        export_model(encoder, directory, version=4)
    run, export = load(tmp_path / "run"), load(directory)
    assert run.offers == export.offers
    assert {"embed", "classify"} <= set(run.offers)
    for expected, found in zip(run.classify(TEXTS), export.classify(TEXTS), strict=True):
        assert found.label in ("no", "yes")
        np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=0.02)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "needs a name"),
        ("/", "needs a name"),
        ("file/x/y", "file: is not a directory"),
        ("a[1]/b", r"path with a \[ in it, as in /"),
    ],
)
def test_export_to_an_impossible_place_raises_an_error(
    encoder, tmp_path, monkeypatch, place, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=message):
        export_model(encoder, place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_load_never_runs_a_hostile_export(tmp_path):
    """The graph writes a file when it is called; loading refuses it before."""

    class Hostile(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, text):
            tf.io.write_file(str(tmp_path / "written"), "by a model")
            return {"text": text, "score": tf.zeros([1])}

    module = Hostile()
    version = tmp_path / "hostile" / "1"
    tf.saved_model.save(module, str(version), signatures={"serving_default": module.serve})
    with pytest.raises(UserError, match=r"manifest"):
        load(version)
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("weights", ["int4", "float64"])
def test_export_with_unknown_weights_raises_an_error(encoder, tmp_path, weights):
    with pytest.raises(ValueError, match="`weights` must be one of"):
        export_model(encoder, tmp_path / "x", weights=weights)


def test_export_in_a_registered_format_writes_its_files(encoder, tmp_path):
    @register_export_format("test_note")
    class Note(ExportFormat):
        def __init__(self, trained, *, text):
            super().__init__(trained)
            self.text = text

        def write(self, directory, name, version):
            (directory / "note.txt").write_text(f"{name} {version}: {self.text}")

    try:
        path = export_model(encoder, tmp_path / "encoder", "test_note", text="hello")
        assert (path / "note.txt").read_text() == "encoder 1: hello"
        with pytest.raises(TypeError, match="weights"):
            export_model(encoder, tmp_path / "other", "test_note", weights="float16")
        assert not (tmp_path / "other").exists()
    finally:
        del FORMATS["test_note"]


def test_export_in_an_unknown_format_lists_the_known_ones(encoder, tmp_path):
    with pytest.raises(UserError, match=r"`format` .*'saved_model'.*; got 'onx'"):
        export_model(encoder, tmp_path / "encoder", "onx")


def test_leftover_of_a_killed_export_is_removed_by_the_next_one(encoder, tmp_path):
    leftover = tmp_path / "encoder" / ".1.0123456789abcdef"
    (leftover / "variables").mkdir(parents=True)
    os.utime(leftover, (0, 0))
    path = export_model(encoder, tmp_path / "encoder")
    assert [each.name for each in (tmp_path / "encoder").iterdir()] == [path.name]
