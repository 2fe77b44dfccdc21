"""A language model that was trained on packed rows answers as its unpacked twin."""

import numpy as np
import tensorflow as tf

from keras_transformer import LanguageModel
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.text import ByteTokenizer
from tests.phrases import SMALL

TEXTS = ["zwei Hunde", "", "A"]


def test_strings_go_through_a_packed_model():
    packed = LanguageModel.from_preset("tiny", num_layers=1, is_packed=True, **SMALL)
    plain = LanguageModel.from_preset("tiny", num_layers=1, **SMALL)
    plain.set_weights(packed.get_weights())
    assert plain.unpacked() is plain
    search = SearchSettings(beams=1, max_length=4)
    texts = tf.constant(TEXTS)
    answers = [
        make_text_module(TrainedModel(model, ByteTokenizer()), search).functions
        for model in (packed, plain)
    ]
    found = [functions["serving_default"](text=texts)["text"].numpy() for functions in answers]
    assert list(found[0]) == list(found[1])
    scores = [
        functions["score"](source=texts, target=texts)["log_probability"] for functions in answers
    ]
    np.testing.assert_array_equal(*scores)
