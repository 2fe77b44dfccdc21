"""What is particular to the recurrent and the convolutional model."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.models import (
    ConvolutionalSeq2Seq,
    ConvolutionalSeq2SeqConfig,
    RecurrentSeq2Seq,
    RecurrentSeq2SeqConfig,
)

SMALL = {"vocabulary_size": 20, "hidden_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 3}
SOURCE, TARGET = np.array([[5, 6, 3, 0]]), np.array([[2, 7, 8]])


def made(model_class, **settings):
    return model_class(**{**SMALL, **settings})


@pytest.mark.parametrize(
    ("model_class", "layers"), [(RecurrentSeq2Seq, 1), (ConvolutionalSeq2Seq, 3)]
)
def test_attention_weights_have_all_layers_that_attend(model_class, layers):
    """A recurrent decoder attends once, a convolutional one in each block."""
    model = made(model_class)
    weights = model.attention_weights(SOURCE, TARGET)
    assert list(weights) == ["cross"]
    assert weights["cross"].shape == (1, layers, 1, 3, 4)
    np.testing.assert_allclose(np.sum(weights["cross"], -1), 1, atol=1e-5)
    assert not np.any(weights["cross"].numpy()[..., 3])
    alignment = model.alignment(SOURCE, TARGET)
    np.testing.assert_array_equal(alignment, weights["cross"][:, -2:][:, 0, 0])


@pytest.mark.parametrize("config_class", [RecurrentSeq2SeqConfig, ConvolutionalSeq2SeqConfig])
def test_each_config_class_has_its_own_sizes(config_class):
    for name in ("tiny", "small", "base", "big"):
        config = config_class.from_size(name, vocabulary_size=100, padding_id=4)
        size = config_class.sizes[name]
        assert (config.hidden_dim, config.padding_id) == (size["hidden_dim"], 4)
        assert config.num_encoder_layers == config.num_decoder_layers == size["depth"]
    with pytest.raises(TypeError, match="num_heads"):
        config_class(vocabulary_size=100, num_heads=8)


@pytest.mark.parametrize(
    ("config_class", "settings", "message"),
    [
        (RecurrentSeq2SeqConfig, {"cell": "no_such"}, "`cell` must be one of .*'gru'.*'lstm'"),
        (
            RecurrentSeq2SeqConfig,
            {"hidden_dim": 9},
            "`hidden_dim` must be even; got 9. Use hidden_dim=8 or 10",
        ),
        (
            RecurrentSeq2SeqConfig,
            {"num_decoder_layers": 0},
            "`num_decoder_layers` must be a whole number",
        ),
        (
            RecurrentSeq2SeqConfig,
            {"attention": "shaw"},
            "`attention`.* 'shaw' cannot attend from one",
        ),
        (
            RecurrentSeq2SeqConfig,
            {"attention": "location_based", "coverage_attention": True},
            "`attention`.* 'location_based' cannot .*coverage.* Use one of .*'additive'",
        ),
        (
            RecurrentSeq2SeqConfig,
            {"coverage_attention": "yes"},
            "`coverage_attention` must be True or False; got 'yes'",
        ),
        (ConvolutionalSeq2SeqConfig, {"kernel_size": 0}, "`kernel_size` must be a whole number"),
        (ConvolutionalSeq2SeqConfig, {"positions": "auto"}, "`positions` must be .*'learned'"),
        (
            ConvolutionalSeq2SeqConfig,
            {"target_vocabulary_size": 9},
            "`share_embeddings`.*vocabulary_size=9.* Use share_embeddings='target'",
        ),
    ],
)
def test_bad_settings_are_named(config_class, settings, message):
    with pytest.raises(ValueError, match=message):
        config_class(vocabulary_size=10, **settings)


@pytest.mark.parametrize("model_class", [RecurrentSeq2Seq, ConvolutionalSeq2Seq])
def test_size_of_the_state_does_not_depend_on_max_length(model_class):
    model = made(model_class)
    memory = model.encode(SOURCE)
    sizes = [
        tf.nest.map_structure(tf.size, model.initial_state(memory, max_length)["layers"])
        for max_length in (1, 1000)
    ]
    assert sizes[0] == sizes[1]
    with pytest.raises(ValueError, match="`max_length` must be a whole number of at least 1"):
        model.initial_state(memory, max_length=0)
    with pytest.raises(ValueError, match=r"`ids`.* 1; got 3"):
        model.step([5, 6, 7], model.initial_state(memory))


@pytest.mark.parametrize("rows", [2, 6])
@pytest.mark.parametrize("model_class", [RecurrentSeq2Seq, ConvolutionalSeq2Seq])
def test_kernels_of_a_growing_state_do_not_change_the_logits(model_class, rows):
    """For a few rows and for many, whose logits are made in two ways."""
    model = made(model_class)
    memory = model.encode(np.repeat(SOURCE, rows, axis=0))
    plain = model.initial_state(memory, max_length=4)
    searching = model.initial_state(memory, max_length=tf.constant(4))
    assert set(searching) - set(plain) == {"kernels"}
    for ids in ([2] * rows, [7] * rows):
        expected, plain = model.step(ids, plain)
        logits, searching = model.step(ids, searching)
        np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_position_limit_is_that_of_the_learned_positions():
    model = made(ConvolutionalSeq2Seq, max_length=4)
    assert model.position_limit == 4
    with pytest.raises(ValueError, match="max_length=4"):
        model.initial_state(model.encode(SOURCE), max_length=5)
    assert made(ConvolutionalSeq2Seq, positions="sinusoidal").position_limit is None
    assert made(RecurrentSeq2Seq, max_length=4).position_limit is None


def test_windows_of_two_blocks_reach_two_tokens_to_each_side():
    model = made(ConvolutionalSeq2Seq, num_encoder_layers=2, kernel_size=3)
    source = np.array([[5, 6, 7, 8, 9, 10, 11]])
    changed = source.copy()
    changed[0, 3] = 12
    before, after = (model.encode(ids).states.numpy()[0] for ids in (source, changed))
    is_same = np.all(before == after, axis=-1)
    assert is_same.tolist() == [True, False, False, False, False, False, True]


@pytest.mark.parametrize("model_class", [RecurrentSeq2Seq, ConvolutionalSeq2Seq])
def test_autograph_converts_every_line(model_class, monkeypatch):
    monkeypatch.setenv("AUTOGRAPH_STRICT_CONVERSION", "1")
    model = made(model_class)

    @tf.function
    def decode(source, ids):
        state = model.initial_state(model.encode(source), max_length=4)
        return model.step(ids, state)[0]

    assert decode(tf.constant([[5, 6, 3]]), tf.constant([2])).shape == (1, 20)
