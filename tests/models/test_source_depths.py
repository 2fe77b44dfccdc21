"""A Transformer that reads the depths of its source tokens."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import GreedySearch, LengthLimits
from keras_transformer.errors import UserError
from keras_transformer.export import TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.models import ModelWithDepths, Transformer, TransformerConfig
from keras_transformer.text import ByteTokenizer, TokenizerPair

SMALL = {
    "vocabulary_size": 260,
    "width": 16,
    "feed_forward_width": 24,
    "num_heads": 4,
    "dropout": 0.0,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
SOURCE = np.array([[5, 6, 7, 3], [8, 9, 3, 0]])
DEPTHS = np.array([[2, 1, 2, 0], [1, 2, 0, 0]])
TARGET = np.array([[2, 10, 11], [2, 12, 0]])


@pytest.fixture(scope="module")
def model():
    return Transformer(TransformerConfig(**SMALL, reads_source_depths=True))


def test_depths_matter_and_padding_does_not(model):
    inputs = {"source": SOURCE, "target": TARGET, "source_depths": DEPTHS}
    assert {name: tensor.shape for name, tensor in model.input.items()} == {
        "source": (None, None),
        "target": (None, None),
        "source_depths": (None, None),
    }
    logits = model(inputs).numpy()
    others = model({**inputs, "source_depths": DEPTHS[:, ::-1]}).numpy()
    assert np.abs(logits - others).max() > 1e-3
    wider = {name: np.pad(ids, [(0, 0), (0, 2)]) for name, ids in inputs.items()}
    np.testing.assert_allclose(model(wider)[0, :3], logits[0], atol=1e-5)


def test_steps_equal_the_full_pass(model):
    logits = model({"source": SOURCE, "target": TARGET, "source_depths": DEPTHS}).numpy()
    state = model.initial_state(model.encode(SOURCE, DEPTHS), max_length=5)
    steps, _ = model.step(TARGET, state)
    np.testing.assert_allclose(steps[0], logits[0], atol=1e-5)
    weights = model.attention_weights(SOURCE, TARGET, DEPTHS)["encoder"]
    assert weights.shape == (2, 1, 4, 4, 4)
    assert model.alignment(SOURCE, TARGET, DEPTHS).shape == (2, 3, 4)


def test_a_search_takes_the_model_with_its_depths(model):
    search = GreedySearch(lengths=LengthLimits(maximum=4))
    found = search(ModelWithDepths(model, tf.constant(DEPTHS)), source=tf.constant(SOURCE))
    logits = model({"source": SOURCE, "target": TARGET[:, :1], "source_depths": DEPTHS}).numpy()
    logits[:, :, [0, 2]] = -np.inf  # a search writes neither padding nor START
    np.testing.assert_array_equal(found.ids[:, 0, 0], logits[:, 0].argmax(-1))


def test_depths_that_are_missing_or_not_wanted(model):
    with pytest.raises(ValueError, match="depth of each source token in its tree, and got none"):
        model.encode(SOURCE)
    plain = Transformer(TransformerConfig(**SMALL))
    assert set(plain.input) == {"source", "target"}
    assert "structure" not in " ".join(layer.name for layer in plain.layers)
    with pytest.raises(ValueError, match="does not read `source_depths`, and got some"):
        plain.encode(SOURCE, DEPTHS)
    with pytest.raises(ValueError, match="`reads_source_depths` must be True or False; got 'yes'"):
        TransformerConfig(vocabulary_size=10, reads_source_depths="yes")


def test_is_saved_whole(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    inputs = {"source": SOURCE, "target": TARGET, "source_depths": DEPTHS}
    np.testing.assert_array_equal(again(inputs), model(inputs))


def test_strings_have_no_tree(model):
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    with pytest.raises(UserError, match="reads the depths of its source tokens cannot be exported"):
        make_text_module(trained, GreedySearch(lengths=LengthLimits(maximum=4)))
