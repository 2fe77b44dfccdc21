"""The encoding module."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import TextEncoder
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import (
    BeamSearch,
)
from keras_transformer.export import TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.text import ByteTokenizer, TokenizerPair
from tests.export.modules.helpers import SMALL


def test_classify_returns_labels_and_probabilities():
    model = TextEncoder.from_size("tiny", vocabulary_size=260, num_layers=1, num_classes=2, **SMALL)
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()), labels=("no", "yes"))
    functions = make_text_module(trained).functions
    found = functions["classify"](text=tf.constant(["good", "bad", "", "long " * 50]))
    assert set(found["label"].numpy()) <= {b"no", b"yes"}
    np.testing.assert_allclose(tf.reduce_sum(found["probabilities"], axis=1), 1, rtol=1e-5)
    vectors = functions["serving_default"](text=tf.constant(["good"]))["embedding"]
    assert vectors.shape == (1, 16)
    with pytest.raises(UserError, match="2 classes, but there are 1 labels"):
        make_text_module(TrainedModel(model, trained.tokenizers, labels=("no",)))
    with pytest.raises(UserError, match="writes no text: there is nothing to search"):
        make_text_module(trained, search=BeamSearch())
