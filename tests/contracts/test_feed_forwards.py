"""Contract of every registered feed-forward network, and of a mixture of experts made here."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_transformer import LanguageModel, TokenCrossEntropy, Transformer
from keras_transformer.layers import (
    FEED_FORWARDS,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    register_feed_forward,
)
from keras_transformer.trainer import TrainingLoop
from tests.trainer.given_batches import VOCABULARY, GivenBatches, make_batch

B, T, M, F, H = 2, 5, 8, 12, 2
IS_TOKEN = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
EXPERTS, SWITCH = "test_mixture_of_experts", "test_switch"

every_network = pytest.mark.parametrize("name", sorted({*FEED_FORWARDS, EXPERTS, SWITCH}))


class MixtureOfExperts(keras.layers.Layer):
    """A sum of experts, weighted by a router, with a load-balancing loss.

    Shazeer et al. 2017, "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts
    Layer", section 4, without the sparsity.
    """

    def __init__(
        self,
        intermediate_dim,
        activation="relu",
        dropout=0.0,
        use_bias=True,
        num_experts=3,
        balance=0.1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_experts = num_experts
        self.balance = balance
        settings = {"activation": activation, "dropout": dropout, "use_bias": use_bias}
        self.experts = [
            FeedForward(intermediate_dim, **settings, dtype=self.dtype_policy, name=f"expert_{i}")
            for i in range(num_experts)
        ]
        self.masks = []  # of each call
        self.supports_masking = True

    def build(self, inputs_shape):
        self.router = self.add_weight(name="router", shape=(inputs_shape[-1], self.num_experts))
        for expert in self.experts:
            expert.build(inputs_shape)

    def call(self, inputs, mask=None, training=None):
        self.masks.append(mask)
        shares = self.shares(inputs)
        if training:
            is_token = ops.ones(ops.shape(inputs)[:2]) if mask is None else mask
            is_token = ops.cast(is_token, "float32")[..., None]
            tokens = ops.maximum(ops.sum(is_token), 1.0)
            means = ops.sum(ops.cast(shares, "float32") * is_token, axis=(0, 1)) / tokens  # [E]
            self.add_loss(self.balance * self.num_experts * ops.sum(ops.square(means)))
        outputs = [expert(inputs, training=training) for expert in self.experts]
        return ops.sum(ops.stack(outputs, axis=-1) * shares[..., None, :], axis=-1)

    def shares(self, inputs):
        """Returns the weights of the experts, `[B, T, E]`."""
        return ops.softmax(ops.matmul(inputs, self.router))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


class Switch(MixtureOfExperts):
    """The most likely of many experts for each position.

    Fedus et al. 2021, "Switch Transformers", section 2.1, without the capacity.
    """

    def __init__(self, intermediate_dim, num_experts=8, **kwargs):
        super().__init__(intermediate_dim, num_experts=num_experts, **kwargs)

    def shares(self, inputs):
        shares = super().shares(inputs)
        chosen = ops.one_hot(ops.argmax(shares, axis=-1), self.num_experts, dtype=shares.dtype)
        return shares * chosen


@pytest.fixture(scope="module", autouse=True)
def registered_experts():
    register_feed_forward(EXPERTS)(MixtureOfExperts)
    register_feed_forward(SWITCH)(Switch)
    yield
    del FEED_FORWARDS[EXPERTS], FEED_FORWARDS[SWITCH]


def randomized(layer, random):
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return layer


def built(name, random, **settings):
    layer = FEED_FORWARDS[name](intermediate_dim=F, **settings)
    layer.build((None, None, M))
    return randomized(layer, random)


def inputs_of(random, *shape):
    return random.normal(0, 1, shape or (B, T, M)).astype("float32")


# --- the network alone ----------------------------------------------------------------------------


@every_network
def test_constructor_takes_the_settings_of_a_block(name):
    settings = {"activation": "swiglu", "dropout": 0.2, "use_bias": False}
    layer = FEED_FORWARDS[name](intermediate_dim=F, **settings, name="some", dtype="mixed_bfloat16")
    layer.build((None, None, M))
    assert (layer.name, layer.dtype_policy.name) == ("some", "mixed_bfloat16")
    with_biases = FEED_FORWARDS[name](intermediate_dim=F, activation="swiglu")
    with_biases.build((None, None, M))
    assert layer.count_params() < with_biases.count_params()


@every_network
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_shape_and_dtype_of_outputs_are_those_of_inputs(name, dtype, random):
    layer = built(name, random, dtype=dtype)
    outputs = layer(keras.Input((None, M)))
    assert (outputs.shape, outputs.dtype) == ((None, None, M), layer.compute_dtype)
    for shape in ((B, T, M), (3, 1, M), (0, T, M)):
        outputs = layer(inputs_of(random, *shape))
        assert (outputs.shape, outputs.dtype) == (shape, layer.compute_dtype)


@every_network
@pytest.mark.parametrize("jit", [False, True])
def test_graph_of_unknown_shapes_gives_the_same_values(name, jit, random):
    layer, x = built(name, random), inputs_of(random)
    specs = [tf.TensorSpec([None, None, M])]
    function = tf.function(layer, input_signature=specs, jit_compile=jit)
    np.testing.assert_allclose(function(x), layer(x), atol=1e-5)


@every_network
def test_build_makes_all_weights_and_each_has_a_gradient(name, random):
    # Enough positions that each expert of a sparse mixture is chosen by some of them.
    layer, x = built(name, random), inputs_of(random, 32, 32, M)
    weights = list(layer.trainable_variables)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x, training=True) ** 2)
    assert list(layer.trainable_variables) == weights
    for gradient in tape.gradient(loss, [weight.value for weight in weights]):
        assert np.all(np.isfinite(gradient))
        assert np.any(gradient)


@every_network
def test_one_position_at_a_time_gives_the_same_values(name, random):
    layer, x = built(name, random), inputs_of(random)
    steps = [layer(x[:, t : t + 1]) for t in range(T)]
    np.testing.assert_allclose(tf.concat(steps, axis=1), layer(x), atol=1e-5)


@every_network
def test_dropout_acts_in_training_only(name, random):
    layer, x = built(name, random, dropout=0.5), inputs_of(random)
    np.testing.assert_array_equal(layer(x), layer(x, training=False))
    assert not np.array_equal(layer(x, training=True), layer(x, training=True))


@every_network
def test_outputs_carry_the_mask_of_the_inputs(name, random):
    layer, inputs = built(name, random), tf.constant(inputs_of(random))
    inputs._keras_mask = tf.constant(IS_TOKEN)
    np.testing.assert_array_equal(layer(inputs)._keras_mask, IS_TOKEN)


# --- in blocks and models -------------------------------------------------------------------------


@every_network
@pytest.mark.parametrize("normalize_first", [True, False])
@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_padding_has_no_effect_on_tokens_and_losses(name, kind, normalize_first, random):
    block = kind(H, F, feed_forward=name, normalize_first=normalize_first)
    block.build((None, None, M))
    randomized(block, random)
    x, found = inputs_of(random), []
    for padding in (0.0, 7.0):
        inputs = tf.where(IS_TOKEN[..., None], x, padding)
        inputs._keras_mask = tf.constant(IS_TOKEN)
        outputs = block(inputs, training=True)
        found.append([outputs[IS_TOKEN], *block.losses])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@every_network
def test_cached_steps_equal_the_full_call(name, random):
    block = DecoderBlock(H, F, feed_forward=name)
    block.build((None, None, M))
    randomized(block, random)
    x, cache, steps = inputs_of(random), block.initial_cache(B), []
    for start, end in ((0, 2), (2, 3), (3, 4), (4, 5)):
        outputs, cache = block(x[:, start:end], cache=cache)
        steps.append(outputs)
    np.testing.assert_allclose(tf.concat(steps, axis=1), block(x), atol=1e-5)


@every_network
def test_saved_model_has_the_network_and_equal_outputs(name, random, tmp_path):
    model = language_model(name)
    randomized(model, random).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.decoder.blocks[0].feed_forward) is FEED_FORWARDS[name]
    ids = make_batch(1, 5, 3)[0]
    np.testing.assert_allclose(again(ids), model(ids), atol=1e-6)
    np.testing.assert_array_equal(again.generate([[2, 5]]), model.generate([[2, 5]]))


def language_model(name, **options):
    keras.utils.set_random_seed(3)
    return LanguageModel(
        vocabulary_size=VOCABULARY,
        hidden_dim=M,
        intermediate_dim=F,
        num_heads=H,
        num_layers=1,
        max_length=12,
        dropout=0.0,
        feed_forward=name,
        feed_forward_options=options,
    )


# --- the mixture of experts -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_network_of_a_model_receives_the_masks_of_source_and_target(dtype):
    model = Transformer(
        vocabulary_size=VOCABULARY,
        hidden_dim=M,
        intermediate_dim=F,
        num_heads=H,
        num_encoder_layers=2,
        num_decoder_layers=2,
        feed_forward=EXPERTS,
        dtype=dtype,
    )
    source, target = make_batch(1, 5, 3)[0], make_batch(2, 2, 4)[0]
    for blocks, ids in ((model.encoder.blocks, source), (model.decoder.blocks, target)):
        for block in blocks:
            block.feed_forward.masks.clear()
        model({"source": source, "target": target})
        for block in blocks:
            np.testing.assert_array_equal(block.feed_forward.masks[0], ids > 0)


@pytest.mark.parametrize("way", ["fit", "loop"])
def test_losses_of_the_network_are_minimized(way):
    batches = GivenBatches([make_batch(1, 5, 2), make_batch(2, 4, 4)])

    def routers(balance):
        model = language_model(EXPERTS, balance=balance)
        model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy(), jit_compile=False)
        if way == "fit":
            model.fit(batches.dataset(), steps_per_epoch=2, shuffle=False, verbose=0)
        else:
            TrainingLoop(model, batches).run(2)
        return model.decoder.blocks[0].feed_forward.router.numpy()

    assert np.abs(routers(balance=10.0) - routers(balance=0.0)).max() > 1e-3
