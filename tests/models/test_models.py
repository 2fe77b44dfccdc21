"""What is particular to the models; what holds for all their variants is in contracts/."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.models import (
    LanguageModel,
    TextEncoder,
    TextEncoderConfig,
    Transformer,
    TransformerConfig,
)
from keras_transformer.schedules import InverseSquareRootDecay

SMALL = {
    "vocabulary_size": 20,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 4,
    "dropout": 0.0,
}


@pytest.mark.parametrize(("preset", "published"), [("base", 65e6), ("big", 213e6)])
def test_parameter_counts_agree_with_the_paper(preset, published):
    """Vaswani et al. 2017, table 3, with the shared vocabulary of about 37,000 of section 5.1."""
    model = Transformer.from_preset(preset, vocabulary_size=37_000)
    assert model.count_params() == pytest.approx(published, rel=0.03)


def test_tiny_has_the_published_size():
    """Wu et al. 2021: about 2.6M with a joint vocabulary of about 10,000."""
    model = Transformer.from_preset("tiny", vocabulary_size=10_000)
    assert model.count_params() == pytest.approx(2.6e6, rel=0.03)


def test_is_a_functional_keras_model():
    model = Transformer.from_preset("tiny", vocabulary_size=20)
    assert isinstance(model, keras.Model)
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in model.input.items()} == {
        "source": ((None, None), "int32"),
        "target": ((None, None), "int32"),
    }
    assert (model.output.shape, model.output.dtype) == ((None, None, 20), "float32")
    names = [layer.name for layer in model.layers]
    assert [name for name in names if name.startswith("encoder_") and name[-1].isdigit()] == [
        f"encoder_{i}" for i in range(4)
    ]
    features = keras.Model(model.input, model.get_layer("encoder_3").output)
    inputs = {"source": np.array([[5, 3]]), "target": np.array([[2]])}
    np.testing.assert_allclose(features(inputs), model.encode([[5, 3]]).states, atol=1e-6)


@pytest.mark.parametrize(
    ("sharing", "sizes"),
    [
        ({"share_embeddings": "all"}, [20]),
        ({"share_embeddings": "target"}, [20, 20]),
        ({"share_embeddings": "none"}, [20, 20, 20]),
        ({"share_embeddings": "target", "target_vocabulary_size": 30}, [20, 30]),
        ({"share_embeddings": "none", "target_vocabulary_size": 30}, [20, 30, 30]),
    ],
)
def test_sharing_of_embeddings(sharing, sizes):
    config = TransformerConfig(**SMALL, num_encoder_layers=1, num_decoder_layers=1, **sharing)
    model = Transformer(config)
    tables = [weight for weight in model.weights if weight.name == "embeddings"]
    assert sorted(table.shape[0] for table in tables) == sizes
    assert model.output.shape[-1] == sizes[-1]


def test_attention_weights():
    config = TransformerConfig(**SMALL, num_encoder_layers=2, num_decoder_layers=3)
    model = Transformer(config)
    source, target = np.array([[5, 6, 3, 0]]), np.array([[2, 7, 8]])
    weights = model.attention_weights(source, target)
    assert {name: tuple(tensor.shape) for name, tensor in weights.items()} == {
        "encoder": (1, 2, 4, 4, 4),
        "decoder": (1, 3, 4, 3, 3),
        "cross": (1, 3, 4, 3, 4),
    }
    np.testing.assert_allclose(np.sum(weights["cross"], -1), 1, atol=1e-5)
    assert not np.any(weights["cross"].numpy()[..., 3])
    language_model = LanguageModel.from_preset("tiny", vocabulary_size=20)
    assert language_model.attention_weights(target)["decoder"].shape == (1, 4, 4, 3, 3)
    encoder = TextEncoder.from_preset("tiny", vocabulary_size=20)
    assert encoder.attention_weights(source)["encoder"].shape == (1, 4, 4, 4, 4)


def test_memory_says_what_is_padding():
    encoder = TextEncoder.from_preset("tiny", vocabulary_size=20)
    memory = encoder.encode([[5, 3, 0]])
    assert memory.states.shape == (1, 3, 128)
    assert memory.mask.numpy().tolist() == [[True, True, False]]


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({}, (2, 16)),
        ({"num_classes": 5}, (2, 5)),
        ({"pooling": "none"}, (2, 3, 16)),
        ({"pooling": "none", "num_classes": 5}, (2, 3, 5)),
    ],
)
def test_outputs_of_a_text_encoder(settings, shape):
    model = TextEncoder(TextEncoderConfig(**SMALL, num_layers=1, **settings))
    assert model({"source": np.array([[5, 6, 3], [7, 3, 0]])}).shape == shape


@pytest.mark.parametrize("settings", [{}, {"positions": "learned"}, {"attention": "shaw"}])
def test_autograph_understands_every_line(settings, monkeypatch):
    """What it does not, it reports to the user as a page of warnings; here as an error."""
    monkeypatch.setenv("AUTOGRAPH_STRICT_CONVERSION", "1")
    model = Transformer.from_preset(
        "tiny", vocabulary_size=20, num_encoder_layers=1, num_decoder_layers=1, **settings
    )

    @tf.function
    def decode(source, ids):
        state = model.initial_state(model.encode(source), max_length=4)
        return model.step(ids, state)[0]

    assert decode(tf.constant([[5, 6, 3]]), tf.constant([2])).shape == (1, 20)


class TestRoomInTheState:
    def test_eager(self):
        model = LanguageModel.from_preset("tiny", vocabulary_size=20)
        state = model.initial_state(1, max_length=3)
        _, state = model.step([[2, 5]], state)
        _, state = model.step([6], state)
        with pytest.raises(ValueError, match=r"room for max_length=3 tokens.*Ask initial_state"):
            model.step([7], state)

    def test_in_a_graph(self):
        model = LanguageModel.from_preset("tiny", vocabulary_size=20)
        step = tf.function(model.step)
        _, state = step(tf.constant([[2, 5, 6]]), model.initial_state(1, max_length=3))
        with pytest.raises(tf.errors.InvalidArgumentError, match="room for max_length=3 tokens"):
            step(tf.constant([[7, 8, 9]]), state)

    def test_default_is_the_config(self):
        model = LanguageModel.from_preset("tiny", vocabulary_size=20, max_length=11)
        state = model.initial_state(2)
        assert state["layers"][0]["key"].shape == (2, 4, 11, 32)

    def test_not_more_than_there_are_positions(self):
        model = LanguageModel.from_preset(
            "tiny", vocabulary_size=20, positions="learned", max_length=4
        )
        assert model.initial_state(1, max_length=4)
        with pytest.raises(ValueError, match=r"max_length=4\) and was asked for another"):
            model.initial_state(1, max_length=10)

    def test_rows_are_those_of_the_state(self):
        model = LanguageModel.from_preset("tiny", vocabulary_size=20)
        with pytest.raises(ValueError, match="a row for each of the state's 1; got 3"):
            model.step([5, 6, 7], model.initial_state(1, max_length=4))

    @pytest.mark.parametrize("max_length", [0, -1, 2.5])
    def test_bad_lengths(self, max_length):
        model = LanguageModel.from_preset("tiny", vocabulary_size=20)
        with pytest.raises(ValueError, match="`max_length` must be a whole number of at least 1"):
            model.initial_state(1, max_length=max_length)


def test_ids_of_the_wrong_rank():
    model = LanguageModel.from_preset("tiny", vocabulary_size=20)
    with pytest.raises(ValueError, match=r"`ids` must have shape \[B\] or \[B, T\]; got \(\)"):
        model.step(3, model.initial_state(1))
    encoder = TextEncoder.from_preset("tiny", vocabulary_size=20)
    with pytest.raises(ValueError, match=r"`source` must have shape \[B, S\]; got \(2,\)"):
        encoder.encode([4, 5])


def test_a_model_is_made_from_its_own_config():
    with pytest.raises(
        ValueError, match=r"Transformer is made from a TransformerConfig; got 'tiny'"
    ):
        Transformer("tiny")


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_of_the_config_acts_in_training_only(rate):
    model = LanguageModel.from_preset("tiny", vocabulary_size=20, **{"dropout": 0.0, rate: 0.5})
    inputs = {"target": np.array([[2, 5, 6, 7]])}
    np.testing.assert_array_equal(model(inputs), model(inputs))
    first, second = (model(inputs, training=True).numpy() for _ in range(2))
    assert not np.allclose(first, second)
    assert not np.allclose(first, model(inputs))


def test_training_goes_on_after_loading(tmp_path):
    """Optimizer, its steps, loss and frozen layers come back with the model."""
    # Without dropout, whose random state Keras does not save.
    model = LanguageModel.from_preset("tiny", vocabulary_size=20, num_layers=1, dropout=0.0)
    inputs, labels = {"target": np.array([[2, 5, 6]])}, np.array([[5, 6, 3]])
    model.get_layer("embedding").trainable = False
    model.compile(keras.optimizers.Adam(InverseSquareRootDecay(0.01, 10)), TokenCrossEntropy(0.1))
    model.fit(inputs, labels, epochs=3, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert int(loaded.optimizer.iterations) == 3
    assert not loaded.get_layer("embedding").trainable
    table = loaded.get_layer("embedding").embeddings.numpy()
    histories = [each.fit(inputs, labels, epochs=2, verbose=0).history for each in (model, loaded)]
    np.testing.assert_allclose(histories[1]["loss"], histories[0]["loss"], rtol=1e-5)
    np.testing.assert_array_equal(loaded.get_layer("embedding").embeddings, table)


def test_half_precision_scales_the_loss():
    model = LanguageModel.from_preset("tiny", vocabulary_size=20, dtype="mixed_float16")
    model.compile("adam", TokenCrossEntropy())
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    again = LanguageModel.from_config(model.get_config())
    assert again.dtype_policy.name == "mixed_float16"
    assert again.get_layer("decoder_0").compute_dtype == "float16"


def test_weights_can_be_quantized():
    model = LanguageModel.from_preset("tiny", vocabulary_size=20)
    inputs = {"target": np.array([[2, 5, 6]])}
    before = model(inputs).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras names every layer that has nothing to quantize
        model.quantize("int8")
    np.testing.assert_allclose(model(inputs), before, atol=0.1 * np.ptp(before))


def test_attention_of_packed_documents_stays_within_them():
    model = LanguageModel.from_preset("tiny", vocabulary_size=20, is_packed=True)
    target, segments = np.array([[2, 5, 2, 6]]), np.array([[1, 1, 2, 2]])
    weights = model.attention_weights(target, segments)["decoder"].numpy()
    assert not np.any(weights[..., 2:, :2])
    assert np.all(weights[..., 3, 2] > 0)


def test_xla_is_not_the_default_on_a_cpu():
    model = LanguageModel.from_preset("tiny", vocabulary_size=20)
    model.compile("adam", "mse")
    assert model.jit_compile is bool(tf.config.list_physical_devices("GPU"))
    model.compile("adam", "mse", jit_compile=True)
    assert model.jit_compile is True


def test_learned_positions_end_at_the_models_max_length():
    model = LanguageModel.from_preset("tiny", vocabulary_size=20, positions="learned", max_length=4)
    assert model({"target": np.array([[2, 5, 6, 7]])}).shape == (1, 4, 20)
    with pytest.raises(ValueError, match="max_length=4"):
        model({"target": np.array([[2, 5, 6, 7, 8]])})
