"""`EncoderBlock` and `DecoderBlock`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import (
    FEED_FORWARDS,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    register_feed_forward,
)
from keras_transformer.layers.feed_forwards import registry
from tests.references import blocks

B, T, S, M, H = 2, 4, 5, 12, 3

every_form = pytest.mark.parametrize(
    "form",
    [
        {"normalize_first": normalize_first, "normalization": normalization}
        for normalize_first in (True, False)
        for normalization in ("layer", "rms")
    ],
    ids=lambda form: "-".join(map(str, form.values())),
)


def randomized(layer, random):
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.4, variable.shape))
    return layer


@every_form
def test_encoder_block_equals_numpy(form, random):
    block = EncoderBlock(H, 16, **form)
    block.build((None, None, M))
    randomized(block, random)
    x = random.normal(0, 1, (B, T, M))
    is_token = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], bool)
    outputs = block(x.astype("float32"), mask=tf.constant(is_token))
    visible = np.broadcast_to(is_token[:, None], (B, T, T))
    np.testing.assert_allclose(outputs, blocks.encoder_block(x, block, visible), atol=1e-5)


@every_form
@pytest.mark.parametrize("has_memory", [True, False])
def test_decoder_block_equals_numpy(form, has_memory, random):
    block = DecoderBlock(H, 16, activation="geglu", **form)
    block.build((None, None, M), (None, None, M) if has_memory else None)
    randomized(block, random)
    x, memory = random.normal(0, 1, (B, T, M)), random.normal(0, 1, (B, S, M))
    is_token = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)
    outputs = block(
        x.astype("float32"),
        memory.astype("float32") if has_memory else None,
        encoder_outputs_mask=tf.constant(is_token) if has_memory else None,
    )
    visible = np.broadcast_to(np.tri(T, dtype=bool), (B, T, T))
    memory_visible = np.broadcast_to(is_token[:, None], (B, T, S))
    expected = blocks.decoder_block(
        x, memory if has_memory else None, block, visible, memory_visible
    )
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_attention_scores_are_returned(random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    memory = random.normal(0, 1, (B, S, M)).astype("float32")
    _, weights = EncoderBlock(H, 16)(x, return_attention_scores=True)
    assert weights.shape == (B, H, T, T)
    outputs, weights = DecoderBlock(H, 16)(x, memory, return_attention_scores=True)
    assert outputs.shape == (B, T, M)
    assert weights["self"].shape == (B, H, T, T)
    assert weights["cross"].shape == (B, H, T, S)
    np.testing.assert_allclose(np.sum(weights["cross"], -1), 1, atol=1e-6)
    _, weights = DecoderBlock(H, 16)(x, return_attention_scores=True)
    assert list(weights) == ["self"]


def test_attention_scores_are_returned_symbolically():
    x, memory = keras.Input((None, M)), keras.Input((S, M))
    outputs, weights = DecoderBlock(H, 16)(x, memory, return_attention_scores=True)
    assert weights["cross"].shape == (None, H, None, S)
    model = keras.Model([x, memory], [outputs, weights["self"], weights["cross"]])
    shapes = [tuple(tensor.shape) for tensor in model([np.zeros((B, T, M)), np.zeros((B, S, M))])]
    assert shapes == [(B, T, M), (B, H, T, T), (B, H, T, S)]


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_each_dropout_acts_in_training_only(kind, rate, random):
    block = kind(H, 16, **{rate: 0.5})
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    np.testing.assert_array_equal(block(x), block(x))
    assert not np.array_equal(block(x, training=True), block(x, training=True))


@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_config_describes_an_equal_block(kind):
    block = kind(
        num_heads=H,
        intermediate_dim=16,
        num_key_value_heads=1,
        attention="rotary",
        activation="swiglu",
        normalization="rms",
        normalize_first=False,
        dropout=0.1,
        attention_dropout=0.2,
        activation_dropout=0.3,
        use_bias=False,
        epsilon=1e-5,
        dtype="mixed_bfloat16",
    )
    again = kind.from_config(block.get_config())
    assert again.get_config() == block.get_config()
    assert again.self_attention.mechanism.registered_name == "rotary"


def test_blocks_pass_implicit_masks_on(random):
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(5, M, mask_zero=True)(ids)
    for normalize_first, normalization in ((True, "rms"), (False, "layer")):
        y = EncoderBlock(H, 16, normalize_first=normalize_first, normalization=normalization)(x)
        y = DecoderBlock(H, 16, normalize_first=normalize_first, normalization=normalization)(y, x)
        mask = keras.Model(ids, y)(np.array([[1, 0]]))._keras_mask
        assert mask.numpy().tolist() == [[True, False]]


def test_decoder_block_without_causal_mask_sees_later_positions(random):
    block = DecoderBlock(H, 16)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    _, weights = block(x, use_causal_mask=False, return_attention_scores=True)
    assert np.all(weights["self"].numpy() > 0)


def test_decoder_block_is_called_always_with_encoder_outputs_or_never(random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    with_memory, without = DecoderBlock(H, 16, name="a"), DecoderBlock(H, 16, name="b")
    with_memory(x, x)
    without(x)
    match = "'a' was first called with encoder outputs and is now called without"
    for inputs in (x, keras.Input((T, M))):
        with pytest.raises(ValueError, match=match):
            with_memory(inputs)
    with pytest.raises(ValueError, match="'b' was first called without encoder outputs"):
        without(x, x)
    with pytest.raises(ValueError, match=match):
        with_memory(x, cache=with_memory.initial_cache(B, 7))


def test_symbolic_calls_with_caches_give_the_shapes_of_real_ones(random):
    block = DecoderBlock(H, 16)
    memory = random.normal(0, 1, (B, S, M)).astype("float32")
    block.build((None, None, M), (None, None, M))
    caches = {
        "cache": block.initial_cache(B, 7),
        "cross_attention_cache": block.cross_attention_cache(memory),
    }
    x = keras.Input(batch_shape=(B, 1, M))
    outputs, weights, new_cache = block(x, **caches, return_attention_scores=True)
    real = block(np.zeros((B, 1, M), "float32"), **caches, return_attention_scores=True)
    shapes = [
        keras.tree.map_structure(lambda tensor: tuple(tensor.shape), nest)
        for nest in ((outputs, weights, new_cache), real)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"normalize_first": "middle"}, "`normalize_first` must be True or False; got 'middle'"),
        ({"normalization": "batch"}, "`normalization` must be one of 'layer', 'rms'; got 'batch'"),
        ({"dropout": 1.5}, r"`dropout` must be a number in \[0, 1\); got 1.5"),
        ({"attention_dropout": -1}, r"`dropout` must be a number in \[0, 1\); got -1"),
        ({"activation": "tanhh"}, "`activation` must be .*'tanhh'. Did you mean 'tanh'"),
        ({"feed_forward": "no_such"}, "`feed_forward` must be one of .*'dense'"),
        ({"epsilon": 0}, "`epsilon` must be a finite number above 0; got 0"),
        ({"attention": "shawn"}, "Did you mean 'shaw'?"),
        (
            {"num_heads": 5},
            "`hidden_dim` must be divisible by num_heads=5; got 12",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        EncoderBlock(**{"num_heads": H, "intermediate_dim": 8, **arguments})(keras.Input((None, M)))


class TestFeedForwardOfABlock:
    """The feed-forward network of a block can be replaced, by name or by a layer."""

    @pytest.fixture(autouse=True)
    def scaled(self, monkeypatch):
        monkeypatch.setattr(registry, "FEED_FORWARDS", dict(FEED_FORWARDS))

        @register_feed_forward("test_scaled")
        class Scaled(FeedForward):
            """A network with an option of its own."""

            def __init__(self, intermediate_dim, factor=1.0, **kwargs):
                super().__init__(intermediate_dim, **kwargs)
                self.factor = factor

            def call(self, inputs, training=None):
                return self.factor * super().call(inputs, training=training)

    def test_registered_name_and_options_make_the_network(self, random):
        x = random.normal(0, 1, (B, T, M)).astype("float32")
        settings = {"feed_forward": "test_scaled", "activation": "gelu", "activation_dropout": 0.1}
        block = EncoderBlock(H, 16, **settings, feed_forward_options={"factor": 0.0})
        network = block.feed_forward
        assert (network.factor, network.intermediate_dim, network.activation) == (0.0, 16, "gelu")
        assert network.dropout == 0.1
        outputs = block(x)
        attended = block.self_attention(block.self_attention_residual.sublayer_inputs(x))
        np.testing.assert_allclose(outputs, x + attended, atol=1e-6)
        again = EncoderBlock.from_config(block.get_config())
        assert again.feed_forward.factor == 0.0
        assert again.get_config() == block.get_config()

    def test_any_keras_layer_is_copied_without_its_weights(self, random):
        layer = keras.layers.Dense(M, activation="tanh", name="mine")
        x = random.normal(0, 1, (B, T, M)).astype("float32")
        layer(x)
        for block in (
            EncoderBlock(H, 16, feed_forward=layer),
            DecoderBlock(H, 16, feed_forward=layer),
        ):
            assert block(x, training=True).shape == (B, T, M)
            assert type(block.feed_forward) is keras.layers.Dense
            assert block.feed_forward is not layer
            assert not np.array_equal(block.feed_forward.kernel, layer.kernel)
            again = type(block).from_config(block.get_config())
            assert again.get_config() == block.get_config()

    def test_losses_of_the_network_are_those_of_the_block(self, random):
        layer = keras.layers.Dense(M, activity_regularizer="l2")
        block = EncoderBlock(H, 16, feed_forward=layer)
        block(random.normal(0, 1, (B, T, M)).astype("float32"))
        assert len(block.losses) == 1

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"feed_forward": 3}, "`feed_forward` must be .*; got 3"),
            ({"feed_forward_options": {"factor": 2}}, "`feed_forward_options`.*dense.*factor"),
            (
                {"feed_forward": keras.layers.Dense(M), "feed_forward_options": {"units": 2}},
                "`feed_forward_options` must be empty .*; got {'units': 2}",
            ),
        ],
    )
    def test_bad_networks_are_named(self, settings, message):
        with pytest.raises(ValueError, match=message):
            EncoderBlock(H, 16, **settings)
