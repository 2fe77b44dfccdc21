"""Settings of models of other making: Transformers in NumPy, and the settings as recipes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.models import LanguageModel, TextEncoder, Transformer
from tests.references import blocks

V, M, H = 11, 12, 3
SIZES = {"vocabulary_size": V, "hidden_dim": M, "num_heads": H, "intermediate_dim": 8}
IDS = np.array([[2, 5, 6, 3, 7, 3], [2, 8, 9, 3, 0, 0]])


def randomized(model, random):
    for variable in model.trainable_variables:
        variable.assign(random.normal(0, 0.4, variable.shape))
    return model


def stack(x, layer, visible):
    """Returns the outputs of an `Encoder`, or of a `Decoder` without an encoder, in float64."""
    if layer.positions is not None:
        x = x + layer.positions.embeddings.numpy()[: x.shape[1]]
    norm = blocks.NORMALIZATIONS[layer.get_config()["normalization"]]
    if layer.normalize_embeddings:
        x = norm(x, layer.embedding_norm)
    for block in layer.blocks:
        x = blocks.encoder_block(x, block, visible)
    return x if layer.norm is None else norm(x, layer.norm)


@pytest.mark.parametrize(
    "settings",
    [
        {
            "normalize_first": False,
            "final_normalization": True,
            "normalize_embeddings": True,
            "scale_embeddings": False,
            "share_embeddings": "none",
            "output_bias": True,
            "activation": "gelu_tanh",
        },
        {
            "final_normalization": False,
            "normalization": "rms",
            "key_dim": 6,
            "query_key_normalization": "rms",
            "use_bias": False,
            "attention_bias": True,
            "attention_output_bias": False,
            "activation": "geglu_tanh",
            "output_bias": True,
        },
    ],
)
def test_language_model_equals_numpy(settings, random):
    model = LanguageModel(
        **SIZES, num_layers=2, positions="learned", max_length=9, dropout=0.0, **settings
    )
    randomized(model, random)
    predictor = model.predictor
    scale = np.sqrt(M) if model.config.scale_embeddings else 1
    embedded = predictor.embedding.embeddings.numpy()[IDS].astype("float64") * scale
    visible = np.tril(np.ones((6, 6), bool)) & (IDS != 0)[:, None]
    states = stack(embedded, model.decoder, visible)
    expected = states @ predictor.output.embeddings.numpy().T + predictor.output.bias.numpy()
    logits = model({"target": IDS}).numpy()
    np.testing.assert_allclose(logits[IDS != 0], expected[IDS != 0], atol=1e-5)
    state, steps = model.initial_state(2, max_length=6), []
    for t in range(6):
        step, state = model.step(IDS[:, t], state)
        steps.append(step)
    np.testing.assert_allclose(np.stack(steps, axis=1)[IDS != 0], logits[IDS != 0], atol=1e-5)
    names = [weight.path.split("/", 2)[-1] for weight in model.weights if "bias" in weight.path]
    is_first = model.config.use_bias
    assert any("self_attention/query/bias" in name for name in names)
    assert any("self_attention/output/bias" in name for name in names) == is_first
    assert any("feed_forward/inner/bias" in name for name in names) == is_first


def test_text_encoder_of_pairs_equals_numpy(random):
    model = TextEncoder(
        **SIZES,
        num_layers=1,
        positions="learned",
        max_length=9,
        dropout=0.0,
        normalize_first=False,
        normalize_embeddings=True,
        scale_embeddings=False,
        num_token_types=2,
        pooling="first",
        normalize_vectors=True,
        num_classes=4,
        head_activation="tanh",
    )
    randomized(model, random)
    reader = model.reader
    types = np.array([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1]])
    embedded = reader.embedding.embeddings.numpy()[IDS].astype("float64")
    embedded += reader.token_types.embeddings.numpy()[types]
    visible = np.broadcast_to((IDS != 0)[:, None], (2, 6, 6))
    vectors = stack(embedded, model.encoder, visible)[:, 0]
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    np.testing.assert_allclose(model.vectors(IDS), vectors, atol=1e-5)
    pooler, head = model.get_layer("pooler"), model.get_layer("head")
    expected = blocks.dense(np.tanh(blocks.dense(vectors, pooler)), head)
    np.testing.assert_allclose(model({"source": IDS}), expected, atol=1e-5)
    again = TextEncoder.from_config(model.get_config())
    assert again.get_config() == model.get_config()


@pytest.mark.parametrize(
    ("sharing", "tables"),
    [("all", (1, 1, 1)), ("target", (1, 2, 2)), ("inputs", (1, 1, 3)), ("none", (1, 2, 3))],
)
def test_output_bias_belongs_to_the_output_layer_alone(sharing, tables):
    model = Transformer(
        **SIZES,
        num_encoder_layers=1,
        num_decoder_layers=1,
        share_embeddings=sharing,
        output_bias=True,
    )
    layers = [model.reader.embedding, model.predictor.embedding, model.predictor.output]
    equal = [[first is second for first in layers] for second in layers]
    assert equal == [[first == second for first in tables] for second in tables]
    assert [weight.shape for weight in model.weights if weight.name == "output_bias"] == [(V,)]
    assert layers[2].bias is not None


def test_gradient_of_the_output_bias_equals_that_of_dense_logits(random):
    model = randomized(LanguageModel(**SIZES, num_layers=1, dropout=0.0, output_bias=True), random)
    output, loss = model.predictor.output, TokenCrossEntropy(0.1)

    @tf.function
    def gradients(is_unchanged):
        with tf.GradientTape() as tape:
            logits = model({"target": IDS}, training=True)
            logits = logits if is_unchanged else tf.identity(logits)
            value = loss(np.roll(IDS, -1, axis=1), logits)
        return value, tape.gradient(value, [output.bias.value, output.embeddings.value])

    fused, dense = gradients(True), gradients(False)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), fused, dense)
    assert np.abs(fused[1][0]).min() > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key_dim": 0}, "`key_dim` must be a whole number of at least 1; got 0"),
        ({"query_key_normalization": "batch"}, "`query_key_normalization` must be one of 'layer'"),
        ({"attention_bias": 1}, "`attention_bias` must be True or False; got 1"),
        ({"share_embeddings": "target"}, "`share_embeddings` must be one of 'all', 'none'"),
        ({"positions_options": {"max_wavelength": 0}}, "`positions_options` must be options of"),
        ({"positions_options": {"theta": 9}}, "`positions_options` must be options of .*theta"),
        (
            {"attention": "rotary", "positions_options": {"max_wavelength": 9}},
            "`positions_options` must be empty without a position encoding",
        ),
        ({"attention_options": {"scaling": {}}, "attention": "rotary"}, "`attention_options`"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        LanguageModel(**SIZES, **settings)
