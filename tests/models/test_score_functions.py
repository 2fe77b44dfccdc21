"""A model with location-based attention, which limits lengths: search and export."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import GreedySearch, LengthLimits
from keras_transformer.export import TextLimits, TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.models import Transformer
from keras_transformer.text import ByteTokenizer, TokenizerPair


@pytest.fixture(scope="module")
def model():
    return Transformer.from_size(
        "tiny",
        vocabulary_size=260,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=16,
        intermediate_dim=16,
        max_length=8,
        attention="location_based",
        cross_attention="location_based",
    )


def test_search_stops_at_the_position_limit(model):
    assert model.position_limit == 8
    search = GreedySearch(lengths=LengthLimits(maximum=30, minimum=30))
    found = search(model, source=tf.constant([[5, 6, 7, 3]]))
    assert np.count_nonzero(found.ids) == 8
    with pytest.raises(ValueError, match=r"max_length=8.*\b9\b"):
        model.encode(np.full((1, 9), 5))


def test_text_limit_past_the_positions_is_an_error(model):
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    search = GreedySearch(lengths=LengthLimits(maximum=8))
    functions = make_text_module(trained, search).functions
    assert functions["serving_default"](text=tf.constant(["a text of more than 8 bytes"]))
    with pytest.raises(UserError, match=r"\b8 positions.* not 9"):
        make_text_module(trained, search, TextLimits(tokens=9))
