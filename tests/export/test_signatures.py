"""The signatures of an export are those of the contract, or those found are told."""

import re

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.export.signatures import CONTRACTS, check_signatures
from keras_transformer.models import MODELS
from tests.export.small_export import NAMES, TEXTS, SmallModel, save_module


@pytest.fixture
def meta_graph(written_export):
    return read_meta_graph(written_export)


def refusal_of(meta_graph, kind="Transformer"):
    with pytest.raises(UserError) as refusal:
        check_signatures("small/1", meta_graph, kind)
    message = str(refusal.value)
    assert message.startswith("small/1: ")
    assert "\n" not in message
    return message


def test_contracts_are_those_of_the_design():
    assert set(CONTRACTS) == set(MODELS)
    assert tuple(CONTRACTS["TextEncoder"]) == ("serving_default", "encode")
    writers = CONTRACTS.keys() - {"TextEncoder"}
    assert {tuple(CONTRACTS[kind]) for kind in writers} == {NAMES}


@pytest.mark.parametrize("kind", ["Transformer", "LanguageModel"])
def test_all_six_are_there(meta_graph, kind):
    assert check_signatures("small/1", meta_graph, kind) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_signature(meta_graph, name):
    del meta_graph.signature_def[name]
    message = refusal_of(meta_graph)
    assert f"no signature '{name}', which every Transformer offers. Signatures found: " in message
    found = re.search(r"Signatures found: (.*)\. Export the model again", message)[1]
    assert len(found.split("; ")) == 5
    if name != "score":
        assert "score(source, target) -> log_probability, tokens" in found


def test_no_signatures_at_all(meta_graph):
    meta_graph.ClearField("signature_def")
    assert "Signatures found: none." in refusal_of(meta_graph)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_another_name_dtype_or_rank_of_any_tensor(written_export, name, side):
    for tensor in CONTRACTS["Transformer"][name]._asdict()[side]:
        what = f"{side[:-1]} '{tensor}' of {name}"

        def changed():
            meta_graph = read_meta_graph(written_export)
            return meta_graph, getattr(meta_graph.signature_def[name], side)

        meta_graph, tensors = changed()
        tensors["other"].CopyFrom(tensors.pop(tensor))
        assert f"no {what}. Signatures found" in refusal_of(meta_graph)

        meta_graph, tensors = changed()
        tensors[tensor].dtype = tf.float64.as_datatype_enum
        assert re.search(
            f"{what} must be (string|float32|int32), but is float64", (refusal_of(meta_graph))
        )

        meta_graph, tensors = changed()
        tensors[tensor].dtype = 9999
        assert "but is dtype 9999" in refusal_of(meta_graph)

        meta_graph, tensors = changed()
        tensors[tensor].tensor_shape.dim.add(size=-1)
        assert f"{what} must have the shape [" in refusal_of(meta_graph)

        meta_graph, tensors = changed()
        tensors[tensor].tensor_shape.Clear()
        tensors[tensor].tensor_shape.unknown_rank = True
        assert "but has an unknown number of axes" in refusal_of(meta_graph)


def test_an_input_more_is_refused_and_an_output_more_is_not(meta_graph):
    signature = meta_graph.signature_def["encode"]
    signature.outputs["more"].CopyFrom(signature.outputs["embedding"])
    check_signatures("small/1", meta_graph, "Transformer")
    signature.inputs["more"].CopyFrom(signature.inputs["text"])
    assert "encode asks for another input, 'more'" in refusal_of(meta_graph)


def test_the_message_says_which_shape(meta_graph):
    meta_graph.signature_def["attention"].outputs["weights"].tensor_shape.dim.pop()
    assert "output 'weights' of attention must have the shape [B, T, S], but has 2 axes" in (
        refusal_of(meta_graph)
    )


def test_a_text_encoder_saved_by_tensorflow(tmp_path):
    model = SmallModel()
    signatures = {"serving_default": model.encode, "encode": model.encode}
    meta_graph = read_meta_graph(save_module(model, tmp_path / "1", signatures))
    assert check_signatures("1", meta_graph, "TextEncoder") == ["encode", "serving_default"]
    assert "no output 'text' of serving_default" in refusal_of(meta_graph)


def test_another_model_saved_by_tensorflow(tmp_path):
    module = tf.Module()
    module.serve = tf.function(lambda text: {"length": tf.strings.length(text)}, [TEXTS])
    meta_graph = read_meta_graph(save_module(module, tmp_path / "1", module.serve))
    assert "Signatures found: serving_default(text) -> length." in refusal_of(meta_graph)
