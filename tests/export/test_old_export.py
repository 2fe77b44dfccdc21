"""An export made before version 0.2 still loads, verifies and answers as recorded.

data/old_export.tar.xz is the export of a small untrained Transformer over bytes, with weights in
float16 and a beam search; data/old_answers.json holds requests and the answers that the old code
gave.
"""

import json
import pathlib
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export import replay, verify_export
from keras_transformer.export.modules import TranslationModule, signatures_of_kind
from keras_transformer.export.signatures import TEXTS, TensorContract, signature
from keras_transformer.export.verification import check_export
from keras_transformer.export.versions import resolve_version
from keras_transformer.inference import load

DATA = pathlib.Path(__file__).parent / "data"
ANSWERS = json.loads((DATA / "old_answers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("old")
    with tarfile.open(DATA / "old_export.tar.xz") as archive:
        archive.extractall(path, filter="data")
    return path / "old_export"


@pytest.fixture(scope="module")
def model(directory):
    return load(directory)


def test_old_export_is_verified(directory):
    verification = verify_export(directory)
    assert verification.manifest["created_with"]["keras_transformer"] == "0.1.0"
    assert all(check.ok for check in verification.checks)
    assert {each.name for each in verification.signatures} == set(ANSWERS)


def test_old_export_is_valid_without_a_signature_of_today(directory, monkeypatch):
    def test_count(self, text):
        """Returns the number of bytes of each text."""
        return {"bytes": tf.strings.length(text)}

    outputs = {"bytes": TensorContract("int32", "B")}
    declared = signature(inputs={"text": TEXTS}, outputs=outputs)(test_count)
    monkeypatch.setattr(TranslationModule, "test_count", declared, raising=False)
    assert "test_count" in [each.name for each in signatures_of_kind("Transformer")]
    assert all(check.ok for check in check_export(resolve_version(directory)).checks)


@pytest.mark.parametrize("name", ANSWERS)
def test_old_export_gives_the_recorded_answers(model, name):
    dtypes = {"temperature": tf.float32, "seed": tf.int32}
    inputs = {
        key: tf.constant(value, dtypes.get(key, tf.string))
        for key, value in ANSWERS[name]["inputs"].items()
    }
    found = model.signatures[name](**inputs)
    assert found.keys() == ANSWERS[name]["outputs"].keys()
    for key, expected in ANSWERS[name]["outputs"].items():
        value = found[key].numpy()
        if value.dtype == object:
            assert replay.to_json(value) == expected
        else:
            np.testing.assert_allclose(value, np.array(expected, value.dtype), rtol=1e-4, atol=1e-5)


def test_old_export_translates_strings(model):
    texts = ANSWERS["serving_default"]["inputs"]["text"]
    assert model.translate(texts) == ANSWERS["serving_default"]["outputs"]["text"]
    (best,) = model.n_best(texts[:1], 2)
    assert best.texts[0] == ANSWERS["n_best"]["outputs"]["text"][0][0]
