"""Buckets, scale and sharing of `RelativeBiasAttention`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import DotProductAttention, RelativeBiasAttention
from keras_transformer.models import LanguageModel, Transformer

# Of `T5Attention._relative_position_bucket` in transformers, with 32 buckets and distance 128.
DISTANCES = [-300, -128, -127, -64, -33, -17, -16, -15, -8, -1, 0, 1, 7, 8, 12, 40, 127, 500]
CAUSAL = [31, 31, 31, 26, 21, 16, 16, 15, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0]
BIDIRECTIONAL = [15, 15, 15, 14, 12, 10, 10, 9, 8, 1, 0, 17, 23, 24, 25, 28, 31, 31]


@pytest.mark.parametrize(("is_causal", "buckets"), [(True, CAUSAL), (False, BIDIRECTIONAL)])
def test_buckets_equal_those_of_t5(is_causal, buckets):
    found = RelativeBiasAttention().bucket(tf.constant(DISTANCES), is_causal)
    np.testing.assert_array_equal(found, buckets)


def test_without_scale_and_biases_equals_dot_product_attention(random):
    query, key, value = (random.normal(0, 1, (2, 3, 5, 4)).astype("float32") for _ in range(3))
    mechanism = RelativeBiasAttention(scale=False)
    mechanism.build(query.shape, key.shape, value.shape)
    mechanism.biases.assign(tf.zeros_like(mechanism.biases))
    expected = DotProductAttention()(query, key, value)
    np.testing.assert_allclose(mechanism(query, key, value), expected, atol=1e-6)


def test_blocks_of_a_stack_share_the_biases(tmp_path):
    sizes = {"hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0}
    depths = {"num_encoder_layers": 3, "num_decoder_layers": 2}
    model = Transformer(vocabulary_size=9, attention="relative_bias", **sizes, **depths)
    tables = [weight for weight in model.weights if weight.name == "biases"]
    assert [weight.shape for weight in tables] == [(32, 2), (32, 2)]  # encoder and decoder
    for stack in (model.encoder, model.decoder):
        shared = {id(block.self_attention.mechanism.biases) for block in stack.blocks}
        assert len(shared) == 1
    tables[0].assign(tf.random.normal((32, 2)))
    inputs = {"source": np.array([[4, 5, 3]]), "target": np.array([[2, 6]])}
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))
    assert len(loaded.weights) == len(model.weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_buckets": 6}, "`num_buckets` must be a multiple of 4; got 6"),
        ({"max_distance": 16}, "`max_distance` must be above num_buckets / 2 = 16; got 16"),
        ({"scale": 1}, "`scale` must be True or False; got 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        RelativeBiasAttention(**arguments)
    with pytest.raises(ValueError, match="`attention_options`"):
        LanguageModel(vocabulary_size=9, attention="relative_bias", attention_options=arguments)
