"""What is particular to each model; `tests/contracts` tests what all variants have in common."""

import dataclasses
import gc
import inspect
import json
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.export import TrainedModel
from keras_transformer.layers import FEED_FORWARDS, FeedForward
from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.models import (
    MODELS,
    ConvolutionalSeq2Seq,
    LanguageModel,
    RecurrentSeq2Seq,
    TextEncoder,
    Transformer,
    TransformerConfig,
)
from keras_transformer.schedules import InverseSquareRootDecay
from keras_transformer.text import ByteTokenizer, SpecialIds

SMALL = {
    "vocabulary_size": 20,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 4,
    "dropout": 0.0,
}


@pytest.mark.parametrize(("size", "published"), [("base", 65e6), ("big", 213e6)])
def test_parameter_counts_agree_with_the_paper(size, published):
    """Vaswani et al. 2017, table 3, with the shared vocabulary of about 37,000 of section 5.1.

    The blocks of a stack have the same size, so one block is built instead of six.
    """
    one_block = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer.from_size(size, vocabulary_size=37_000, **one_block)
    table = model.get_layer("embedding").count_params()
    assert TransformerConfig.from_size(size, vocabulary_size=9).num_encoder_layers == 6
    assert table + 6 * (model.count_params() - table) == pytest.approx(published, rel=0.03)


def test_parameter_count_of_tiny_agrees_with_the_paper():
    """Wu et al. 2021: about 2.6M with a joint vocabulary of about 10,000."""
    model = Transformer.from_size("tiny", vocabulary_size=10_000)
    assert model.count_params() == pytest.approx(2.6e6, rel=0.03)


def test_transformer_is_a_functional_keras_model():
    model = Transformer.from_size("tiny", vocabulary_size=20)
    assert isinstance(model, keras.Model)
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in model.input.items()} == {
        "source": ((None, None), "int32"),
        "target": ((None, None), "int32"),
    }
    assert (model.output.shape, model.output.dtype) == ((None, None, 20), "float32")
    assert [block.name for block in model.get_layer("encoder").blocks] == [
        f"block_{i}" for i in range(4)
    ]
    features = keras.Model(model.input, model.get_layer("encoder").output)
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
def test_share_embeddings_decides_the_number_of_tables(sharing, sizes):
    model = Transformer(**SMALL, num_encoder_layers=1, num_decoder_layers=1, **sharing)
    tables = [weight for weight in model.weights if weight.name == "embeddings"]
    assert sorted(table.shape[0] for table in tables) == sizes
    assert model.output.shape[-1] == sizes[-1]


def test_attention_weights_have_all_blocks_and_heads():
    model = Transformer(**SMALL, num_encoder_layers=2, num_decoder_layers=3)
    source, target = np.array([[5, 6, 3, 0]]), np.array([[2, 7, 8]])
    weights = model.attention_weights(source, target)
    assert {name: tuple(tensor.shape) for name, tensor in weights.items()} == {
        "encoder": (1, 2, 4, 4, 4),
        "decoder": (1, 3, 4, 3, 3),
        "cross": (1, 3, 4, 3, 4),
    }
    np.testing.assert_allclose(np.sum(weights["cross"], -1), 1, atol=1e-5)
    assert not np.any(weights["cross"].numpy()[..., 3])
    language_model = LanguageModel.from_size("tiny", vocabulary_size=20)
    assert language_model.attention_weights(target)["decoder"].shape == (1, 4, 4, 3, 3)
    encoder = TextEncoder.from_size("tiny", vocabulary_size=20)
    assert encoder.attention_weights(source)["encoder"].shape == (1, 4, 4, 4, 4)


def test_encoder_output_tells_padding_from_tokens():
    encoder = TextEncoder.from_size("tiny", vocabulary_size=20)
    output = encoder.encode([[5, 3, 0]])
    assert output.states.shape == (1, 3, 128)
    assert output.mask.numpy().tolist() == [[True, True, False]]


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({}, (2, 16)),
        ({"num_classes": 5}, (2, 5)),
        ({"pooling": "none"}, (2, 3, 16)),
        ({"pooling": "none", "num_classes": 5}, (2, 3, 5)),
    ],
)
def test_pooling_and_classes_decide_the_outputs_of_a_text_encoder(settings, shape):
    model = TextEncoder(**SMALL, num_layers=1, **settings)
    assert model({"source": np.array([[5, 6, 3], [7, 3, 0]])}).shape == shape


@pytest.mark.parametrize("settings", [{}, {"positions": "learned"}, {"attention": "shaw"}])
def test_autograph_converts_every_line(settings, monkeypatch):
    """Autograph reports what it cannot convert as warnings; in strict mode as errors."""
    monkeypatch.setenv("AUTOGRAPH_STRICT_CONVERSION", "1")
    model = Transformer.from_size(
        "tiny", vocabulary_size=20, num_encoder_layers=1, num_decoder_layers=1, **settings
    )

    @tf.function
    def decode(source, ids):
        state = model.initial_state(model.encode(source), max_length=4)
        return model.step(ids, state)[0]

    assert decode(tf.constant([[5, 6, 3]]), tf.constant([2])).shape == (1, 20)


class TestSpaceInTheState:
    def test_step_past_the_space_is_an_error_in_eager_code(self):
        model = LanguageModel.from_size("tiny", vocabulary_size=20)
        state = model.initial_state(1, max_length=3)
        _, state = model.step([[2, 5]], state)
        _, state = model.step([6], state)
        with pytest.raises(ValueError, match="max_length=3"):
            model.step([7], state)

    def test_step_past_the_space_fails_in_a_graph(self):
        model = LanguageModel.from_size("tiny", vocabulary_size=20)
        step = tf.function(model.step)
        _, state = step(tf.constant([[2, 5, 6]]), model.initial_state(1, max_length=3))
        with pytest.raises(tf.errors.InvalidArgumentError, match="max_length=3"):
            step(tf.constant([[7, 8, 9]]), state)

    def test_default_space_is_the_max_length_of_the_config(self):
        model = LanguageModel.from_size("tiny", vocabulary_size=20, max_length=11)
        state = model.initial_state(2)
        assert state["layers"][0].key.shape == (2, 4, 11, 32)

    def test_space_past_the_learned_positions_is_an_error(self):
        model = LanguageModel.from_size(
            "tiny", vocabulary_size=20, positions="learned", max_length=4
        )
        assert model.initial_state(1, max_length=4)
        with pytest.raises(ValueError, match=r"max_length=4"):
            model.initial_state(1, max_length=10)

    def test_ids_with_other_rows_than_the_state_are_an_error(self):
        model = LanguageModel.from_size("tiny", vocabulary_size=20)
        with pytest.raises(ValueError, match=r"`ids`.* 1; got 3"):
            model.step([5, 6, 7], model.initial_state(1, max_length=4))

    @pytest.mark.parametrize("max_length", [0, -1, 2.5])
    def test_bad_max_lengths_are_named(self, max_length):
        model = LanguageModel.from_size("tiny", vocabulary_size=20)
        with pytest.raises(ValueError, match="`max_length` must be a whole number of at least 1"):
            model.initial_state(1, max_length=max_length)


def test_ids_of_the_wrong_rank_are_an_error():
    model = LanguageModel.from_size("tiny", vocabulary_size=20)
    with pytest.raises(ValueError, match=r"`ids` must have shape \[B\] or \[B, T\]; got \(\)"):
        model.step(3, model.initial_state(1))
    encoder = TextEncoder.from_size("tiny", vocabulary_size=20)
    with pytest.raises(ValueError, match=r"`source` must have shape \[B, S\]; got \(2,\)"):
        encoder.encode([4, 5])


class TestConstructors:
    def test_keyword_arguments_are_the_fields_of_the_config(self):
        model = Transformer(**SMALL, num_encoder_layers=1, num_decoder_layers=1, name="mine")
        expected = TransformerConfig(**SMALL, num_encoder_layers=1, num_decoder_layers=1)
        assert (model.config, model.name) == (expected, "mine")
        parameters = inspect.signature(Transformer).parameters
        names = [field.name for field in dataclasses.fields(TransformerConfig)]
        assert list(parameters) == [*names, "dtype", "name"]
        assert parameters["num_heads"].default == 8
        with pytest.raises(TypeError, match="hiden_dim"):
            Transformer(vocabulary_size=20, hiden_dim=16)

    def test_docstrings_describe_every_argument(self):
        for model_class in MODELS.values():
            described = re.findall(r"^    (\w+): \w", model_class.__doc__, re.MULTILINE)
            assert described == list(inspect.signature(model_class).parameters)
        text = " ".join(Transformer.__doc__.split())
        assert "num_encoder_layers: Integer. Number of blocks or layers of the encoder. " in text
        assert 'normalization: String. "layer" or "rms". Defaults to "layer". ' in text
        assert (
            "normalize_first: Boolean. Pre-norm (True) or post-norm (False). Defaults to F" in text
        )

    def test_from_settings_takes_a_config_of_the_class(self):
        config = TransformerConfig(**SMALL, num_encoder_layers=1, num_decoder_layers=1)
        model = Transformer.from_settings(config, dtype="mixed_bfloat16", name="mine")
        assert (model.config, model.name) == (config, "mine")
        assert model.dtype_policy.name == "mixed_bfloat16"
        with pytest.raises(ValueError, match=r"TransformerConfig; got 'tiny'.*from_size"):
            Transformer.from_settings("tiny")

    def test_from_preset_loads_the_model_of_a_run(self, tmp_path):
        model = LanguageModel.from_size("tiny", vocabulary_size=260, num_layers=1)
        TrainedModel(model, ByteTokenizer()).save(tmp_path)
        loaded = LanguageModel.from_preset(tmp_path)
        inputs = {"target": np.array([[2, 5, 6]])}
        np.testing.assert_array_equal(loaded(inputs), model(inputs))
        with pytest.raises(ValueError, match="LanguageModel, not a Transformer"):
            Transformer.from_preset(tmp_path)

    def test_activation_function_survives_the_config(self):
        model = LanguageModel(**SMALL, num_layers=1, activation=keras.activations.mish)
        again = LanguageModel.from_config(json.loads(json.dumps(model.get_config())))
        again.set_weights(model.get_weights())
        inputs = {"target": np.array([[2, 5, 6]])}
        np.testing.assert_array_equal(again(inputs), model(inputs))


SPECIAL_IDS = {"padding_id": 5, "unknown_id": 0, "start_id": 6, "end_id": 1}


class TestSpecialIds:
    def test_special_ids_are_those_of_the_config(self):
        model = Transformer(**SMALL, num_encoder_layers=1, num_decoder_layers=1, **SPECIAL_IDS)
        assert model.special_ids == SpecialIds(padding=5, unknown=0, start=6, end=1)
        assert LanguageModel.from_size("tiny", vocabulary_size=20).special_ids == SpecialIds()

    @pytest.mark.parametrize("copies", [False, True])
    def test_padding_of_another_id_changes_nothing(self, copies):
        layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, "copies": copies}
        model = Transformer(**SMALL, **layers, **SPECIAL_IDS)
        short = {"source": np.array([[7, 0, 1]]), "target": np.array([[6, 0]])}
        padded = {"source": np.array([[7, 0, 1, 5, 5]]), "target": np.array([[6, 0, 5]])}
        np.testing.assert_allclose(model(padded)[:, :2], model(short), atol=1e-5)
        assert model.encode(padded["source"]).mask.numpy().tolist() == [[True] * 3 + [False] * 2]

    @pytest.mark.parametrize("model_class", [Transformer, RecurrentSeq2Seq, ConvolutionalSeq2Seq])
    def test_start_id_that_equals_the_padding_id_is_a_token(self, model_class):
        """In whole passes, with more padding, and in steps; as a model with another padding id."""
        fields = {field.name for field in dataclasses.fields(model_class.config_class)}
        sizes = {name: value for name, value in SMALL.items() if name in fields}
        sizes |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
        sizes |= {"copies": True, "coverage_weight": 1.0, "unknown_id": 1, "end_id": 0}
        model = model_class(**sizes, padding_id=10, start_id=10)
        other = model_class(**sizes, padding_id=9, start_id=10)
        other.set_weights(model.get_weights())
        inputs = {
            "source": np.array([[4, 5, 6, 0]] * 2),
            "target": np.array([[10, 5, 6], [10, 7, 8]]),
        }
        expected = other(inputs, training=True)
        np.testing.assert_allclose(model(inputs, training=True), expected, atol=1e-5)
        np.testing.assert_allclose(model.losses[0], other.losses[0], rtol=1e-5)
        padded = {
            **inputs,
            "target": np.pad(inputs["target"], [(0, 0), (0, 2)], constant_values=10),
        }
        outputs = model(padded)
        np.testing.assert_allclose(outputs[:, :3], expected, atol=1e-5)
        assert outputs._keras_mask.numpy().tolist() == [[True] * 3 + [False] * 2] * 2
        again = model_class.from_config(model.get_config())
        again.set_weights(model.get_weights())
        state = again.initial_state(again.encode(inputs["source"]), max_length=4)
        for t in range(3):
            logits, state = again.step(inputs["target"][:, t], state)
            np.testing.assert_allclose(logits, expected[:, t], atol=1e-5)

    @pytest.mark.parametrize("is_packed", [False, True])
    def test_start_id_that_equals_the_padding_id_is_a_token_of_a_language_model(self, is_packed):
        settings = {**SMALL, "num_layers": 1, "is_packed": is_packed, "unknown_id": 1, "end_id": 0}
        model = LanguageModel(**settings, padding_id=10, start_id=10)
        other = LanguageModel(**settings, padding_id=9, start_id=10)
        other.set_weights(model.get_weights())
        inputs = {"target": np.array([[10, 5, 6, 10, 7]])}
        if is_packed:
            inputs["segments"] = np.array([[1, 1, 1, 2, 2]])
        else:
            inputs["target"] = inputs["target"][:, :3]
        outputs = model(inputs)
        np.testing.assert_allclose(outputs, other(inputs), atol=1e-5)
        assert np.all(outputs._keras_mask)

    def test_ids_that_exclude_each_other_are_an_error(self):
        with pytest.raises(ValueError, match="`padding` and `end` must differ"):
            TransformerConfig(vocabulary_size=20, padding_id=3)


class TestGenerate:
    def test_search_is_given_by_name_or_as_an_object(self):
        model = Transformer(**SMALL, num_encoder_layers=1, num_decoder_layers=1)
        source = np.array([[5, 6, 7, 3], [8, 3, 0, 0]])
        expected = BeamSearch(beams=3)(model, source=source).ids[:, 0]
        np.testing.assert_array_equal(model.generate(source, "beam", beams=3), expected)
        np.testing.assert_array_equal(model.generate(source, BeamSearch(beams=3)), expected)
        greedy = GreedySearch()(model, source=source).ids[:, 0]
        np.testing.assert_array_equal(model.generate(source), greedy)

    def test_language_model_continues_its_prompts(self):
        model = LanguageModel(**SMALL, num_layers=1)
        prompts = np.array([[5, 6, 7], [8, 9, 0]])
        generated = model.generate(prompts)
        np.testing.assert_array_equal(generated[0, :3], prompts[0])
        np.testing.assert_array_equal(generated[1, :2], prompts[1, :2])


def test_frozen_blocks_survive_the_config():
    model = Transformer(**SMALL, num_encoder_layers=2, num_decoder_layers=1)
    model.encoder.blocks[1].trainable = False
    model.get_layer("embedding").trainable = False
    again = Transformer.from_config(model.get_config())
    assert [block.trainable for block in again.encoder.blocks] == [True, False]
    assert not again.get_layer("embedding").trainable
    assert len(again.trainable_variables) == len(model.trainable_variables)


def test_feed_forward_of_a_model_is_a_registered_name_with_options(monkeypatch):
    class Narrow(FeedForward):
        def __init__(self, intermediate_dim, divisor, **kwargs):
            super().__init__(intermediate_dim // divisor, **kwargs)

    monkeypatch.setitem(FEED_FORWARDS, "test_narrow", Narrow)
    options = {"feed_forward": "test_narrow", "feed_forward_options": {"divisor": 4}}
    model = LanguageModel(**SMALL, num_layers=2, **options)
    assert {block.feed_forward.intermediate_dim for block in model.decoder.blocks} == {6}
    again = LanguageModel.from_config(model.get_config())
    assert again.config == model.config


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_of_the_config_acts_in_training_only(rate):
    model = LanguageModel.from_size("tiny", vocabulary_size=20, **{"dropout": 0.0, rate: 0.5})
    inputs = {"target": np.array([[2, 5, 6, 7]])}
    np.testing.assert_array_equal(model(inputs), model(inputs))
    first, second = (model(inputs, training=True).numpy() for _ in range(2))
    assert not np.allclose(first, second)
    assert not np.allclose(first, model(inputs))


def test_training_continues_after_loading(tmp_path):
    """Optimizer, its steps, loss and frozen layers come back with the model."""
    # Without dropout, whose random state Keras does not save.
    model = LanguageModel.from_size("tiny", vocabulary_size=20, num_layers=1, dropout=0.0)
    inputs, labels = {"target": np.array([[2, 5, 6]])}, np.array([[5, 6, 3]])
    model.get_layer("embedding").trainable = False
    optimizer = keras.optimizers.Adam(InverseSquareRootDecay(0.01, 10))
    model.compile(optimizer, TokenCrossEntropy(0.1), run_eagerly=True)
    model.fit(inputs, labels, epochs=3, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert int(loaded.optimizer.iterations) == 3
    assert not loaded.get_layer("embedding").trainable
    table = loaded.get_layer("embedding").embeddings.numpy()
    histories = [each.fit(inputs, labels, epochs=2, verbose=0).history for each in (model, loaded)]
    np.testing.assert_allclose(histories[1]["loss"], histories[0]["loss"], rtol=1e-5)
    np.testing.assert_array_equal(loaded.get_layer("embedding").embeddings, table)


def test_float16_scales_the_loss():
    model = LanguageModel.from_size("tiny", vocabulary_size=20, dtype="mixed_float16")
    model.compile("adam", TokenCrossEntropy())
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    again = LanguageModel.from_config(model.get_config())
    assert again.dtype_policy.name == "mixed_float16"
    assert again.decoder.blocks[0].compute_dtype == "float16"


def test_weights_can_be_quantized(monkeypatch):
    # Keras collects garbage once for each layer, which takes seconds among many tests' objects.
    monkeypatch.setattr(gc, "collect", lambda *_: 0)
    model = LanguageModel.from_size("tiny", vocabulary_size=20, num_layers=1)
    inputs = {"target": np.array([[2, 5, 6]])}
    before = model(inputs).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras names every layer that has nothing to quantize
        model.quantize("int8")
    np.testing.assert_allclose(model(inputs), before, atol=0.1 * np.ptp(before))


def test_attention_of_packed_documents_stays_within_them():
    model = LanguageModel.from_size("tiny", vocabulary_size=20, is_packed=True)
    target, segments = np.array([[2, 5, 2, 6]]), np.array([[1, 1, 2, 2]])
    weights = model.attention_weights(target, segments)["decoder"].numpy()
    assert not np.any(weights[..., 2:, :2])
    assert np.all(weights[..., 3, 2] > 0)


def test_xla_is_not_the_default_on_a_cpu():
    model = LanguageModel.from_size("tiny", vocabulary_size=20)
    model.compile("adam", "mse")
    assert model.jit_compile is bool(tf.config.list_physical_devices("GPU"))
    model.compile("adam", "mse", jit_compile=True)
    assert model.jit_compile is True


def test_input_past_the_learned_positions_is_an_error():
    model = LanguageModel.from_size("tiny", vocabulary_size=20, positions="learned", max_length=4)
    assert model({"target": np.array([[2, 5, 6, 7]])}).shape == (1, 4, 20)
    with pytest.raises(ValueError, match="max_length=4"):
        model({"target": np.array([[2, 5, 6, 7, 8]])})
