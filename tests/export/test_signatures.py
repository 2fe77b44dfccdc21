"""Signature records, the contract check that follows from them, and their documentation."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export.graph import signatures_of
from keras_transformer.export.modules import (
    ContinuationModule,
    EncodingModule,
    TranslationModule,
    signatures_of_kind,
    text_module_class,
)
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.export.signatures import (
    TEXTS as TEXT_INPUT,
)
from keras_transformer.export.signatures import (
    Signature,
    TensorContract,
    check_signatures,
    declared_signatures,
    described_tensors,
    signature,
)
from keras_transformer.models import MODELS
from tests.export.small_export import NAMES, TEXTS, SmallModel, save_module


@pytest.fixture
def meta_graph(written_export):
    return read_meta_graph(written_export)


def check(meta_graph, kind="Transformer"):
    return check_signatures("small/1", signatures_of(meta_graph), kind, signatures_of_kind(kind))


def refusal_of(meta_graph, kind="Transformer"):
    with pytest.raises(UserError) as refusal:
        check(meta_graph, kind)
    message = str(refusal.value)
    assert message.startswith("small/1: ")
    assert "\n" not in message
    return message


def test_every_model_class_has_the_signatures_of_the_design():
    names = {kind: {each.name for each in signatures_of_kind(kind)} for kind in MODELS}
    for kind, model_class in MODELS.items():
        is_encoder = text_module_class(model_class) is EncodingModule
        required = ("serving_default", "encode", "classify") if is_encoder else NAMES
        assert set(required) <= names[kind]


def test_declared_signatures_are_inherited_and_need_only_a_record_and_a_method():
    class Counting(TranslationModule):
        @signature(inputs={"text": TEXT_INPUT}, outputs={"length": TensorContract("int32", "B")})
        def test_count(self, text):
            """Returns the length of each text."""

    *inherited, added = declared_signatures(Counting)
    assert tuple(inherited) == declared_signatures(TranslationModule)
    assert (str(added), added.method) == ("test_count(text) -> length", "test_count")
    assert added.summary == "Returns the length of each text."


def test_example_request_has_texts_answers_and_numbers():
    texts, answers = np.array([b"a"], object), np.array([b"b"], object)
    records = {each.name: each for each in declared_signatures(TranslationModule)}
    assert records["score"].example_request(texts, answers) == {"source": texts, "target": answers}
    sample = records["sample"].example_request(texts, answers)
    assert (sample["temperature"].dtype, sample["seed"].dtype) == (np.float32, np.int32)
    assert (sample["temperature"], sample["seed"]) == (1.0, 1)
    assert records["score"].is_batched
    assert not records["sample"].is_batched


def test_signatures_in_the_documentation_are_those_of_the_records():
    page = pathlib.Path(__file__).parents[2] / "saved_models" / "README.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]

    def row(each: Signature):
        tensors = (described_tensors(part) for part in (each.inputs, each.outputs))
        return "| " + " | ".join([f"`{each.name}`", *tensors, each.summary]) + " |"

    for module in (TranslationModule, ContinuationModule, EncodingModule):
        missing = [row(each) for each in declared_signatures(module) if row(each) not in rows]
        assert not missing, "\n".join(missing)


def test_new_signature_is_required_of_exports_that_list_it(meta_graph):
    outputs = {"n": TensorContract("int32", "B")}
    new = Signature("test_count", "test_count", "", {"text": TEXT_INPUT}, outputs)
    records = (*signatures_of_kind("Transformer"), new)

    def check_with(*listed):
        return check_signatures(
            "small/1", signatures_of(meta_graph), "Transformer", records, listed
        )

    assert check_with(*NAMES) == sorted(NAMES)
    with pytest.raises(UserError, match="no signature 'test_count', which its manifest lists"):
        check_with(*NAMES, "test_count")
    meta_graph.signature_def["test_count"].CopyFrom(meta_graph.signature_def["encode"])
    with pytest.raises(UserError, match="no output 'n' of test_count"):
        check_with(*NAMES, "test_count")


@pytest.mark.parametrize("kind", ["Transformer", "LanguageModel"])
def test_check_signatures_accepts_all_six(meta_graph, kind):
    assert check(meta_graph, kind) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_check_signatures_names_a_missing_signature(meta_graph, name):
    del meta_graph.signature_def[name]
    message = refusal_of(meta_graph)
    assert f"no signature '{name}', which every Transformer offers" in message
    found = re.search(r"Signatures found: (.*?)\. ", message)[1]
    assert len(found.split("; ")) == 5
    if name != "score":
        assert "score(source, target) -> log_probability, tokens" in found


def test_check_signatures_without_signatures_raises_an_error(meta_graph):
    meta_graph.ClearField("signature_def")
    assert "Signatures found: none." in refusal_of(meta_graph)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_check_signatures_detects_another_name_dtype_or_rank(written_export, name, side):
    record = next(each for each in signatures_of_kind("Transformer") if each.name == name)
    for tensor in getattr(record, side):
        what = f"{side[:-1]} '{tensor}' of {name}"

        def changed():
            meta_graph = read_meta_graph(written_export)
            return meta_graph, getattr(meta_graph.signature_def[name], side)

        meta_graph, tensors = changed()
        tensors["other"].CopyFrom(tensors.pop(tensor))
        assert f"no {what}." in refusal_of(meta_graph)

        meta_graph, tensors = changed()
        tensors[tensor].dtype = tf.float64.as_datatype_enum
        assert re.search(
            f"{what} must be (string|float32|int32), but is float64", refusal_of(meta_graph)
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


def test_check_signatures_refuses_further_inputs_and_accepts_further_outputs(meta_graph):
    signature = meta_graph.signature_def["encode"]
    signature.outputs["more"].CopyFrom(signature.outputs["embedding"])
    check(meta_graph)
    signature.inputs["more"].CopyFrom(signature.inputs["text"])
    assert "encode has another input, 'more'" in refusal_of(meta_graph)


def test_check_signatures_names_the_expected_shape(meta_graph):
    meta_graph.signature_def["attention"].outputs["weights"].tensor_shape.dim.pop()
    assert "output 'weights' of attention must have the shape [B, T, S], but has 2 axes" in (
        refusal_of(meta_graph)
    )


def test_check_signatures_of_a_text_encoder(tmp_path):
    model = SmallModel()
    signatures = {"serving_default": model.encode, "encode": model.encode}
    meta_graph = read_meta_graph(save_module(model, tmp_path / "1", signatures))
    assert check(meta_graph, "TextEncoder") == ["encode", "serving_default"]
    assert "no output 'text' of serving_default" in refusal_of(meta_graph)


def test_check_signatures_lists_what_it_found(tmp_path):
    module = tf.Module()
    module.serve = tf.function(lambda text: {"length": tf.strings.length(text)}, [TEXTS])
    meta_graph = read_meta_graph(save_module(module, tmp_path / "1", module.serve))
    assert "Signatures found: serving_default(text) -> length." in refusal_of(meta_graph)
