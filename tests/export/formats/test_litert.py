"""Exports for LiteRT, run by LiteRT."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import BeamSearch, LengthLimits
from keras_transformer.export import export_model, verify_export
from keras_transformer.export.formats import litert
from keras_transformer.export.formats.litert import MODEL, LiteRTFormat
from keras_transformer.export.manifest import read_manifest
from keras_transformer.export.runners.run_litert import open_interpreter
from keras_transformer.export.step_functions import StepFunctions, constant_function
from tests import phrases
from tests.export.formats.models import SEARCH, make_language_model, make_model


@pytest.fixture(scope="module")
def export(phrases_run, tmp_path_factory):
    """The export of the model that translates phrases."""
    to = tmp_path_factory.mktemp("litert") / "phrases"
    settings = {"search": phrases.SEARCH, "limits": phrases.LIMITS}
    return export_model(phrases_run, to, "litert", **settings)


def test_export_is_verified_with_its_beam_search(export):
    verification = verify_export(export)
    (row,) = verification.golden
    assert row.ok
    assert "two red dogs" in row.got["text"]
    assert verification.manifest["search"]["beams"] == 4
    assert verification.manifest["export_format"] == "litert"


def test_program_of_export_needs_no_tensorflow(export):
    script = (
        "import runpy, sys; sys.modules['tensorflow'] = sys.modules['keras_transformer'] = None;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", script, str(export / "run.py"), "--beams", "1"]
    sources = b"zwei rote Hunde\r\n\nneun graue Fische"
    done = subprocess.run(command, input=sources, capture_output=True, check=False)
    assert done.stdout == b"two red dogs\n\nnine gray fish\n", done.stderr


@pytest.mark.slow
def test_steps_of_export_give_the_logits_of_the_model(tmp_path):
    trained = make_model(attention="rotary", num_key_value_heads=2)
    model, source = trained.model, np.array([[70, 80, 3], [60, 3, 0]], np.int32)
    LiteRTFormat(trained, search=SEARCH).convert(tmp_path, "float32")
    interpreter = open_interpreter(str(tmp_path))
    encode, step = (interpreter.get_signature_runner(name) for name in ("encode", "step"))
    (name,) = encode.get_input_details()
    state = encode(**{name: source})
    target = np.array([[2, 90, 91], [2, 50, 4]], np.int32)
    expected = np.asarray(model({"source": source, "target": target}))
    state = {
        key: np.zeros(each["shape"], each["dtype"]) if key not in state else state[key]
        for key, each in step.get_input_details().items()
        if key != "ids"
    }
    for place in range(3):
        outputs = step(ids=target[:, place], **state)
        np.testing.assert_allclose(outputs.pop("logits"), expected[:, place], atol=1e-4)
        state |= {key.removeprefix("next_"): value for key, value in outputs.items()}


@pytest.mark.parametrize(("weights", "bytes_each"), [("float16", 2), ("int8", 1)])
def test_smaller_weights_make_a_smaller_file(tmp_path, monkeypatch, weights, bytes_each):
    trained = make_model(hidden_dim=128, intermediate_dim=1024)
    functions = {"encode": StepFunctions(trained.model, 8).encode}
    monkeypatch.setattr(LiteRTFormat, "_functions", lambda self: functions)
    LiteRTFormat(trained, search=SEARCH, weights=weights).convert(tmp_path, weights)
    layers = [trained.model.encoder, trained.model.reader.embedding]
    size = bytes_each * sum(layer.count_params() for layer in layers)
    assert size < (tmp_path / MODEL).stat().st_size < 2 * size


def test_language_model_continues_prompts_of_several_lengths(tmp_path):
    trained = make_language_model(attention="alibi", num_layers=1)
    search = BeamSearch(beams=2, lengths=LengthLimits(maximum=5, maximum_ratio=None))
    writer = LiteRTFormat(trained, search=search)
    writer.convert(tmp_path, "float32")
    find = open_interpreter(str(tmp_path)).get_signature_runner("search")
    ids = np.array([[70, 80, 90], [60, 0, 0]], np.int32)
    found, expected = find(ids=ids), search(trained.model, prefix=ids)
    np.testing.assert_array_equal(found["ids"], expected.ids)
    np.testing.assert_allclose(found["score"], expected.score, rtol=1e-4)


@pytest.mark.slow
def test_export_with_int8_weights_is_verified(tmp_path):
    trained = make_model(num_decoder_layers=1)
    path = export_model(trained, tmp_path / "x", "litert", search=SEARCH, weights="int8")
    assert read_manifest(path)["weights"]["difference"]["texts"] > 0
    assert all(row.ok for row in verify_export(path).golden)


@pytest.mark.slow
def test_model_with_other_operations_is_refused_by_name(tmp_path, monkeypatch):
    def add_igamma(model, function, specs):
        def call(*tensors):
            one = tf.math.igamma(
                *tf.unstack(tf.cast(tf.shape(tensors[0]), tf.float32)[:1] * [1, 1])
            )
            found = function(*tensors)
            return {name: value + tf.cast(one, value.dtype) for name, value in found.items()}

        return constant_function(model, call, specs)

    monkeypatch.setattr(litert, "constant_function", add_igamma)
    with pytest.raises(UserError, match=r"LiteRT cannot express the operations .*Igamma"):
        export_model(make_model(), tmp_path / "x", "litert", search=SEARCH)
    assert not (tmp_path / "x").exists()
