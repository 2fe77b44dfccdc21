"""A version directory: complete and right, or not there."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import TextEncoder
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel, export_model, exporting, open_text_model
from keras_transformer.export.manifest import read_manifest
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.text import ByteTokenizer, TokenizerPair
from tests import phrases

SIGNATURES = {"serving_default", "n_best", "sample", "score", "attention", "encode"}
TEXTS = [source for source, _ in phrases.make_pairs()[::9]] + ["", "Hund", "x" * 500]


@pytest.fixture
def encoder():
    """A model that knows nothing and exports fastest."""
    model = TextEncoder.from_preset("tiny", num_layers=1, **phrases.SMALL)
    return TrainedModel(model, TokenizerPair(ByteTokenizer()))


def attributes(directory):
    graph = read_meta_graph(directory).graph_def
    functions = graph.library.function
    return {name for function in functions for name in function.attr} | {
        name for function in functions for node in function.node_def for name in node.attr
    }


def test_the_export_answers_as_the_model_in_memory(functions, phrases_export):
    export = open_text_model(phrases_export)
    assert set(export.signatures) == SIGNATURES
    mine = functions["n_best"](text=tf.constant(TEXTS))
    theirs = export.signatures["n_best"](text=tf.constant(TEXTS))
    assert mine["text"].numpy().tolist() == theirs["text"].numpy().tolist()
    np.testing.assert_allclose(mine["score"], theirs["score"], rtol=1e-5, atol=1e-5)


def test_what_is_in_the_directory(phrases_export):
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
    assert {pair["signature"] for pair in manifest["golden"]} == SIGNATURES
    texts = manifest["golden"][0]["outputs"]["text"]
    assert "two red dogs" in texts
    assert not manifest["xla"]
    assert "SentencepieceTokenizeOp" in manifest["ops"]["outside_core"]
    assert (version / "assets.extra" / "tf_serving_warmup_requests").stat().st_size > 100


def test_no_xla_by_default(phrases_export):
    """TensorFlow Serving refuses a graph with parts that XLA must compile."""
    assert "_XlaMustCompile" not in attributes(phrases_export / "1")


def test_half_the_bytes_of_the_weights(bytes_export):
    weights = read_manifest(bytes_export / "7")["weights"]
    assert weights["dtype"] == "bfloat16"
    assert weights["difference"]["texts"] == len(exporting.BUILT_IN_EXAMPLES)
    assert 0 < weights["difference"]["largest_difference_of_scores"] < 0.5
    data = bytes_export / "7" / "variables" / "variables.data-00000-of-00001"
    assert data.stat().st_size < 2.5 * weights["parameters"]


def test_portable(bytes_export, phrases_run, tmp_path):
    """A model of bytes needs core TensorFlow alone, and Python without tensorflow_text loads it."""
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
def test_xla_is_in_the_graph_if_asked_for(tmp_path):
    search = SearchSettings(beams=1, max_length=4)
    path = export_model(phrases.make_bytes_model(), tmp_path / "fast", search=search, xla=True)
    assert "_XlaMustCompile" in attributes(path)
    assert json.loads((path / "assets.extra" / "manifest.json").read_text())["xla"]


def test_other_answers_after_loading_leave_nothing_behind(encoder, tmp_path, monkeypatch):
    """As if loading had changed the model: what is remembered is not what is answered."""
    golden_pairs = exporting._golden_pairs

    def misremembered(module, requests):
        pairs = golden_pairs(module, requests)
        pairs[0]["outputs"]["embedding"][2][0] += 0.1
        return pairs

    monkeypatch.setattr(exporting, "_golden_pairs", misremembered)
    with pytest.raises(RuntimeError, match="answers otherwise than the one in memory"):
        export_model(encoder, tmp_path / "models" / "bytes")
    assert not (tmp_path / "models" / "bytes").exists()


def test_a_full_disk_leaves_nothing_behind(encoder, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises((OSError, tf.errors.OpError)):
            export_model(encoder, tmp_path / "bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "bytes").exists()


def test_the_next_version(encoder, tmp_path):
    directory = tmp_path / "encoder"
    (directory / "3").mkdir(parents=True)
    (directory / "latest").mkdir()
    assert export_model(encoder, directory) == directory / "4"
    with pytest.raises(UserError, match="exists already"):
        export_model(encoder, directory, version=4)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "needs a name"),
        ("/", "needs a name"),
        ("file/x/y", "file: is not a directory"),
        ("a[1]/b", r"path with a \[ in it, as in /"),
    ],
)
def test_no_place_for_it(encoder, tmp_path, monkeypatch, place, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=message):
        export_model(encoder, place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_export_has_its_own_search(phrases_export):
    with pytest.raises(UserError, match="searches as it was told when it was made"):
        open_text_model(phrases_export, beams=8)


def test_a_run_takes_search_settings(phrases_run):
    text_model = open_text_model(phrases_run, beams=2, max_length=3, length_penalty=None)
    found = text_model.signatures["n_best"](text=tf.constant(["zwei rote Hunde"]))
    assert found["text"].shape == (1, 2)
    with pytest.raises(TypeError, match="beam_width"):
        open_text_model(phrases_run, beam_width=3)


def test_a_hostile_export_is_never_run(tmp_path):
    """Its graph writes a file when it is called; opening refuses it before that."""

    class Hostile(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, text):
            tf.io.write_file(str(tmp_path / "written"), "by a model")
            return {"text": text, "score": tf.zeros([1])}

    module = Hostile()
    version = tmp_path / "hostile" / "1"
    tf.saved_model.save(module, str(version), signatures={"serving_default": module.serve})
    with pytest.raises(UserError, match=r"manifest"):
        open_text_model(version)
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("weights", ["int8", "float64"])
def test_unknown_weights(encoder, tmp_path, weights):
    with pytest.raises(ValueError, match="`weights` must be one of"):
        export_model(encoder, tmp_path / "x", weights=weights)
