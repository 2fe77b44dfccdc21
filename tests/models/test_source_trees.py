"""A Transformer that reads the trees of its source."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import BeamSearch, GreedySearch, LengthLimits, SamplingSearch
from keras_transformer.models import Transformer, TransformerConfig

SMALL = {
    "vocabulary_size": 40,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 4,
    "dropout": 0.0,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}
SOURCE = np.array([[5, 6, 7, 3], [8, 9, 3, 0]])
WORDS = np.array([[1, 2, 3, 0], [1, 2, 0, 0]])
HEADS = np.array([[2, 0, 2], [0, 1, -1]])
TREES = {"source_words": WORDS, "source_heads": HEADS}
TARGET = np.array([[2, 10, 11], [2, 12, 0]])


def made(**settings):
    return Transformer(**SMALL, **settings)


@pytest.fixture(scope="module")
def model():
    return made(tree_positions="both")


def test_inputs_are_those_that_the_model_reads(model):
    assert {name: tensor.shape for name, tensor in model.input.items()} == dict.fromkeys(
        ("source", "target", "source_words", "source_heads"), (None, None)
    )
    assert model.further_inputs == ("source_words", "source_heads")
    plain = made()
    assert set(plain.input) == {"source", "target"}
    assert plain.further_inputs == ()
    assert "tree_positions" not in {layer.name for layer in plain.layers}
    assert plain.encoder.depth_encoding is None


@pytest.mark.parametrize(
    ("kind", "has_depths", "encoder"),
    [("absolute", True, None), ("relative", False, "structural"), ("both", True, "structural")],
)
def test_tree_positions_decide_the_parts_of_the_encoder(kind, has_depths, encoder):
    model = made(tree_positions=kind, attention="rotary")
    assert (model.encoder.depth_encoding is not None) == has_depths
    assert model.config.encoder_attention == encoder
    names = [
        block.self_attention.mechanism.registered_name
        for block in (model.encoder.blocks[0], model.decoder.blocks[0])
    ]
    assert names == [encoder or "rotary", "rotary"]
    # Rotary attention encodes positions; structural attention does not.
    assert (model.encoder.positions is not None) == (encoder is not None)


def test_relative_tree_positions_choose_a_mechanism_that_reads_relations():
    config = TransformerConfig(
        **SMALL, tree_positions="relative", encoder_attention_options={"max_distance": 3}
    )
    assert config.mechanism(config.encoder_field).max_distance == 3
    assert config.mechanism_fields == ("encoder_attention", "attention", "cross_attention")
    options = {"attention": "structural", "attention_options": {"max_distance": 4}}
    config = TransformerConfig(**SMALL, tree_positions="relative", **options)
    assert config.encoder_attention is None
    assert config.mechanism(config.encoder_field).max_distance == 4
    config = TransformerConfig(**SMALL, encoder_attention="linformer")
    assert (config.encoder_field, config.decoder_field) == ("encoder_attention", "attention")


def test_settings_that_exclude_each_other_are_named():
    with pytest.raises(ValueError, match=r"`tree_positions` must be one of .*'both'.*; got True"):
        TransformerConfig(**SMALL, tree_positions=True)
    message = "`encoder_attention`.*'rotary' cannot read relations.* Use one of .*'structural'"
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**SMALL, tree_positions="relative", encoder_attention="rotary")
    with pytest.raises(ValueError, match="`encoder_attention_options` must be empty"):
        TransformerConfig(**SMALL, encoder_attention_options={"max_distance": 3})


def test_missing_or_unexpected_trees_are_an_error(model):
    with pytest.raises(ValueError, match=r"'both'.*`source_words`.*; got none of them"):
        model.encode(SOURCE)
    with pytest.raises(ValueError, match=r"; got one of them"):
        model.encode(SOURCE, WORDS)
    with pytest.raises(ValueError, match=r"reads no trees.*`source_words`"):
        made().encode(SOURCE, **TREES)


def test_alignment_is_the_mean_of_the_cross_attention_weights(model):
    weights = model.attention_weights(SOURCE, TARGET, **TREES)
    assert weights["encoder"].shape == (2, 1, 4, 4, 4)
    others = model.attention_weights(SOURCE, TARGET, WORDS, HEADS[:, ::-1])
    assert not np.allclose(weights["encoder"], others["encoder"])
    alignment = model.alignment(SOURCE, TARGET, **TREES)
    np.testing.assert_allclose(alignment, tf.reduce_mean(weights["cross"][:, 0], axis=1), atol=1e-6)


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(lengths=LengthLimits(maximum=4)),
        BeamSearch(beams=2, lengths=LengthLimits(maximum=4)),
        SamplingSearch(temperature=0.0, lengths=LengthLimits(maximum=4)),
    ],
    ids=lambda search: type(search).__name__,
)
def test_search_reads_the_trees(model, search):
    """The first token that is found is the likeliest, given the trees."""
    found = search(model, source={"source": SOURCE, **TREES})
    alone = search(model, source={"source": SOURCE[:1], **{n: t[:1] for n, t in TREES.items()}})
    np.testing.assert_array_equal(found.ids[:1], alone.ids)
    if not isinstance(search, BeamSearch):
        logits = model({"source": SOURCE, "target": TARGET[:, :1], **TREES}).numpy()
        logits[:, :, [0, 2]] = -np.inf  # a search writes neither padding nor the start id
        np.testing.assert_array_equal(found.ids[:, 0, 0], logits[:, 0].argmax(-1))


@pytest.mark.parametrize("jit", [False, True])
def test_search_function_reads_the_trees(model, jit):
    search = GreedySearch(lengths=LengthLimits(maximum=4))
    given = [tf.constant(part, tf.int32) for part in (SOURCE, WORDS, HEADS)]
    found = search.function(model, jit_compile=jit)(*given)
    expected = search(model, source={"source": SOURCE, **TREES})
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-5)


def test_search_without_the_trees_is_an_error(model):
    search = GreedySearch(lengths=LengthLimits(maximum=4))
    with pytest.raises(ValueError, match="needs `source_words`"):
        search(model, source=SOURCE)
    with pytest.raises(ValueError, match=r"'source'.*; got \['ids'\]"):
        search(model, source={"ids": SOURCE})
