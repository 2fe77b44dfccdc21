"""The configs of Transformers: defaults, sizes, mechanisms and errors."""

import dataclasses

import pytest

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.layers import FEED_FORWARDS, FeedForward
from keras_transformer.models import (
    SIZES,
    LanguageModelConfig,
    TextEncoderConfig,
    TransformerConfig,
)
from tests.mistakes import assert_mistake

every_config = pytest.mark.parametrize(
    "config_class", [TransformerConfig, LanguageModelConfig, TextEncoderConfig]
)


@every_config
@pytest.mark.parametrize("name", SIZES)
def test_every_size_is_a_config(config_class, name):
    config = config_class.from_size(name, vocabulary_size=100)
    assert config.hidden_dim == SIZES[name]["hidden_dim"]
    assert {getattr(config, field) for field in config.depth_fields} == {SIZES[name]["depth"]}


def test_settings_replace_those_of_the_size():
    config = TransformerConfig.from_size(
        "tiny", vocabulary_size=100, dropout=0.25, num_encoder_layers=2
    )
    assert (config.num_encoder_layers, config.num_decoder_layers) == (2, 4)
    assert (config.hidden_dim, config.intermediate_dim, config.num_heads) == (128, 256, 4)
    assert config.dropout == 0.25


def test_base_and_big_are_those_of_the_paper():
    """Vaswani et al. 2017, table 3, and section 5.4 and 6.1 for dropout."""
    base = TransformerConfig.from_size("base", vocabulary_size=37_000)
    assert (base.num_encoder_layers, base.num_decoder_layers, base.hidden_dim) == (6, 6, 512)
    assert (base.intermediate_dim, base.num_heads, base.dropout) == (2048, 8, 0.1)
    big = TransformerConfig.from_size("big", vocabulary_size=37_000)
    assert (big.num_encoder_layers, big.num_decoder_layers, big.hidden_dim) == (6, 6, 1024)
    assert (big.intermediate_dim, big.num_heads, big.dropout) == (4096, 16, 0.3)
    for config in (base, big):
        assert (config.normalize_first, config.normalization, config.activation) == (
            False,
            "layer",
            "relu",
        )
        assert config.position_scheme == "sinusoidal"
        assert config.share_embeddings == "all"


def test_auto_positions_are_none_beside_a_mechanism_that_encodes_them():
    config = LanguageModelConfig(vocabulary_size=10, attention="rotary")
    assert config.position_scheme is None
    assert dataclasses.replace(config, positions="learned").position_scheme == "learned"
    assert dataclasses.replace(config, attention="scaled_dot_product").position_scheme
    none = dataclasses.replace(config, attention="scaled_dot_product", positions="none")
    assert none.position_scheme is None


def test_encoder_and_decoder_can_have_different_mechanisms():
    config = TransformerConfig(
        vocabulary_size=10, attention="big_bird", decoder_attention="rotary", max_length=30
    )
    assert config.decoder_field == "decoder_attention"
    assert config.position_scheme == config.position_scheme_beside("attention") == "sinusoidal"
    assert config.position_scheme_beside("decoder_attention") is None
    same = TransformerConfig(vocabulary_size=10, attention="rotary")
    assert same.decoder_field == "attention"


def test_mechanisms_with_a_limit_take_the_max_length_of_the_config():
    config = TextEncoderConfig(vocabulary_size=10, attention="linformer", max_length=30)
    assert config.mechanism("attention").max_length == 30
    config = dataclasses.replace(config, attention_options={"max_length": 40})
    assert config.mechanism("attention").max_length == 40


def test_configs_are_frozen():
    config = TextEncoderConfig(vocabulary_size=10)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_dim = 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"hidden_dim": 500},
            "`hidden_dim` must be divisible by num_heads=8; got 500",
        ),
        ({"hidden_dim": 500}, "Use hidden_dim=496 or 504, or another num_heads"),
        ({"num_key_value_heads": 3}, "`num_heads` must be divisible by num_key_value_heads="),
        ({"vocabulary_size": 0}, "`vocabulary_size` must be a whole number of at least 1; got 0"),
        (
            {"num_encoder_layers": "six"},
            "`num_encoder_layers` must be a whole number .*; got 'six'",
        ),
        ({"num_decoder_layers": True}, "`num_decoder_layers` must be a whole number .*; got True"),
        ({"hidden_dim": 512.0}, "`hidden_dim` must be a whole number of at least 1; got 512.0"),
        ({"dropout": 1}, r"`dropout` must be a number in \[0, 1\); got 1"),
        ({"dropout": float("nan")}, r"`dropout` must be a number in \[0, 1\); got nan"),
        ({"attention": "rotory"}, "`attention` must be one of .* Did you mean 'rotary'?"),
        ({"cross_attention": "none"}, "^`cross_attention` must be one of"),
        ({"cross_attention": "local"}, "`cross_attention`.* 'local' cannot attend from one"),
        (
            {"attention": "linformer"},
            "^`attention`.* 'linformer' cannot .*: `decoder_attention`",
        ),
        (
            {"decoder_attention": "big_bird"},
            "^`decoder_attention`.* 'big_bird' cannot .* Use one of [^`]*$",
        ),
        (
            {"decoder_attention_options": {"window": 3}},
            "`decoder_attention_options` must be empty without `decoder_attention`",
        ),
        ({"positions": "sinusoid"}, "`positions` must be one of .* Did you mean 'sinusoidal'?"),
        ({"activation": "swisch"}, "Did you mean 'swish'?"),
        ({"feed_forward_options": {"factor": 2}}, "`feed_forward_options`.*'dense'.*factor"),
        ({"feed_forward_options": {"dropout": 0.5}}, "`feed_forward_options`.*'dense'.*dropout"),
        ({"normalize_first": "pre"}, "`normalize_first` must be True or False; got 'pre'"),
        ({"epsilon": float("inf")}, "`epsilon` must be a finite number above 0; got inf"),
        ({"use_bias": "no"}, "`use_bias` must be True or False; got 'no'"),
        (
            {"target_vocabulary_size": 9},
            "`share_embeddings`.*vocabulary_size=9.* Use share_embeddings='target'",
        ),
        ({"share_embeddings": "both"}, "`share_embeddings` must be one of 'all', 'inputs', 'none'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**{"vocabulary_size": 10, **settings})


def test_bad_settings_of_a_text_encoder_are_named():
    with pytest.raises(ValueError, match="`pooling` must be one of 'first', 'max', 'mean', 'none'"):
        TextEncoderConfig(vocabulary_size=10, pooling="sum")
    with pytest.raises(ValueError, match="`num_classes` must be a whole number of at least 1"):
        TextEncoderConfig(vocabulary_size=10, num_classes=0)


def test_unknown_size_is_named():
    with pytest.raises(ValueError, match=r"`size` must be one of .* Did you mean .tiny.\?"):
        TransformerConfig.from_size("tinny", vocabulary_size=10)


def test_length_limits_name_the_fields_that_set_them():
    config = TransformerConfig(vocabulary_size=10, cross_attention="location_based", max_length=60)
    assert config.mechanism("cross_attention").max_length == 60
    assert config.length_limits() == {"cross_attention": 60}
    learned = dataclasses.replace(
        config, positions="learned", cross_attention_options={"max_length": 40}
    )
    assert learned.length_limits() == {"positions": 60, "cross_attention": 40}
    assert not TransformerConfig(vocabulary_size=10).length_limits()


def test_packing_with_location_based_attention_is_an_error():
    with pytest.raises(
        ValueError, match=r"'location_based' cannot .* packed .* Use one of .*'shaw'"
    ):
        LanguageModelConfig(vocabulary_size=10, attention="location_based", is_packed=True)


def test_unknown_options_of_a_mechanism_are_named():
    with pytest.raises(ValueError, match=r"`attention_options`.*shaw.*max_distence"):
        TransformerConfig(
            vocabulary_size=10, attention="shaw", attention_options={"max_distence": 8}
        )


def test_value_of_an_option_of_a_feed_forward_network_is_checked_by_its_key(monkeypatch):
    class Wide(FeedForward):
        def __init__(self, intermediate_dim, factor=1, **kwargs):
            super().__init__(
                intermediate_dim * require_positive_integer("factor", factor), **kwargs
            )

    monkeypatch.setitem(FEED_FORWARDS, "test_wide", Wide)
    settings = {"vocabulary_size": 10, "feed_forward": "test_wide"}
    with pytest.raises(ArgumentError) as raised:
        LanguageModelConfig(**settings, feed_forward_options={"factor": 0})
    assert_mistake(raised.value, key="feed_forward_options.factor", got=0)
    options = {"factor": 2}
    config = LanguageModelConfig(**settings, feed_forward_options=options)
    assert config.feed_forward_options == options
