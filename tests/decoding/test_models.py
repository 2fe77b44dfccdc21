"""Searches with real models: steps with a cache compared with whole forward passes."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import (
    BeamSearch,
    GreedySearch,
    LengthLimits,
    NoRepeatNgram,
    SamplingSearch,
)
from keras_transformer.layers.kv_cache import GrowingKVCache
from keras_transformer.models import (
    ConvolutionalSeq2Seq,
    LanguageModel,
    RecurrentSeq2Seq,
    Transformer,
)
from tests.decoding import reference
from tests.decoding.agreement import assert_agrees, assert_follows, assert_same_found, row_of
from tests.decoding.reference import DEFAULT, START, Rules, Special
from tests.decoding.toy_models import at_most

SIZES = {
    "vocabulary_size": 11,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 4,
    "max_length": 12,
    "dropout": 0.0,
}
SOURCES = np.array([[5, 6, 7, 8, 9, 3], [10, 4, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]])
PROMPTS = [(5, 6, 7, 8), (9,), (), (4, 4)]
PADDED_PROMPTS = np.array([[5, 6, 7, 8], [9, 0, 0, 0], [0, 0, 0, 0], [4, 4, 0, 0]])
LENGTHS = LengthLimits(maximum=5, maximum_ratio=1.0, maximum_margin=2)


def made(model_class, depth=1, **settings):
    """Returns a small model whose random weights are large enough for distinct predictions."""
    config_class = model_class.config_class
    fields = {field.name for field in dataclasses.fields(config_class)}
    sizes = {name: value for name, value in SIZES.items() if name in fields}
    depths = dict.fromkeys(config_class.depth_fields, depth)
    model = model_class(**{**sizes, **depths, **settings})
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(variable + random.normal(0, 0.4, variable.shape))
    return model


def name_of(settings):
    return "-".join(str(value) for value in settings.values()) or "default"


def whole_passes(model, sources, with_attention=False, special=DEFAULT):
    """Returns the reference's model for each row: a whole forward pass for every token.

    The attention is the mean over the heads of the second to last block, or of the only one.
    """
    row = tf.TensorSpec([1, None], tf.int32)

    @tf.function(input_signature=[dict.fromkeys(model.input, row)])
    def last(inputs):
        logits = model(inputs)[0, -1]
        if not with_attention:
            return logits, tf.constant(0.0)
        weights = model.attention_weights(**inputs)["cross"]  # [1, N, H, T, S]
        block = max(weights.shape[1] - 2, 0)
        return logits, tf.reduce_mean(weights[0, block, :, -1], axis=0)

    def row_model(source):
        given = {} if source is None else {"source": source[None, source != special.padding]}

        def answer(ids):
            logits, attention = last({**given, "target": np.array([[special.start, *ids]])})
            return logits.numpy(), attention.numpy()

        return answer

    return [row_model(source) for source in sources]


def rules_of_sources(special=DEFAULT):
    for source in SOURCES:
        tokens = np.count_nonzero(source)
        minimum, maximum = reference.bounds(tokens, 5, maximum_ratio=1.0, maximum_margin=2)
        yield Rules(minimum=minimum, maximum=maximum, special=special)


def rules_of_prompts():
    for prompt in PROMPTS:
        minimum, maximum = reference.bounds(len(prompt), 5, maximum_ratio=1.0, maximum_margin=2)
        yield Rules((reference.no_repeat_ngram(2),), prompt, minimum, maximum)


COVERING = {"attention": "additive", "copies": True, "coverage_attention": True}
BEAMS = {"beams": 3, "n_best": 2, "length_penalty": 0.6}


@pytest.mark.parametrize(
    ("model_class", "settings"),
    [
        (Transformer, {"attention": "shaw", "positions": "learned"}),
        (Transformer, {"attention": "rotary", "num_key_value_heads": 2, "depth": 2}),
        (Transformer, {"copies": True}),
        (RecurrentSeq2Seq, {"cell": "lstm", "depth": 2}),
        (RecurrentSeq2Seq, COVERING),
        (ConvolutionalSeq2Seq, {"kernel_size": 3, "depth": 2}),
        (ConvolutionalSeq2Seq, {"copies": True}),
    ],
)
def test_beam_search_of_seq2seq_model_equals_whole_passes(model_class, settings):
    """Also with coverage and alignment; and each row alone, without padding, equals the batch."""
    model, penalties = made(model_class, **settings), {**BEAMS, "coverage_penalty": 0.3}
    models = whole_passes(model, SOURCES, with_attention=True)
    expected = [
        reference.beam_search(row, rules, **penalties)
        for row, rules in zip(models, rules_of_sources(), strict=True)
    ]
    search = BeamSearch(lengths=LENGTHS, with_alignment=True, **penalties)
    function = search.function(model)
    found = function(SOURCES)
    assert_agrees(found, expected, hypotheses=2)
    for row, source in enumerate(SOURCES):
        assert_same_found(function(source[None, source != 0]), row_of(found, row))
    assert function.experimental_get_tracing_count() == 1


SPECIAL = {
    "padding-5": Special(padding=5),
    "start-is-padding": Special(padding=10, unknown=1, start=10, end=0),  # as in Marian
    "start-is-end": Special(padding=1, unknown=3, start=2, end=2),  # as in BART
}


@pytest.mark.parametrize("special", SPECIAL.values(), ids=SPECIAL.keys())
@pytest.mark.parametrize(
    ("model_class", "settings"),
    [
        (Transformer, {"positions": "learned"}),
        (RecurrentSeq2Seq, {"attention": "additive", "copies": True}),
        (ConvolutionalSeq2Seq, {"copies": True}),
    ],
)
def test_beam_search_with_other_special_ids_equals_whole_passes(model_class, settings, special):
    ids = {f"{name}_id": number for name, number in special._asdict().items()}
    model = made(model_class, **settings, **ids)
    pieces = np.setdiff1d(np.arange(11), special)
    places = dict(enumerate(pieces.tolist(), start=4))
    places |= {0: special.padding, 3: special.end}
    sources = np.vectorize(lambda old: places.get(old, pieces[-1]))(SOURCES)
    models = whole_passes(model, sources, with_attention=True, special=special)
    expected = [
        reference.beam_search(row, rules, **BEAMS)
        for row, rules in zip(models, rules_of_sources(special), strict=True)
    ]
    search = BeamSearch(lengths=LENGTHS, with_alignment=True, **BEAMS)
    found = search.function(model)(sources)
    assert_agrees(found, expected, hypotheses=2, padding=special.padding)
    # Compilation with the other sets is tested with a model that compiles faster.
    if model_class is Transformer and special == SPECIAL["start-is-padding"]:
        compiled = search.function(model, jit_compile=True)(sources)
        assert_same_found(compiled, found, atol=1e-4)


@pytest.mark.parametrize("model_class", [Transformer, LanguageModel])
def test_start_id_that_equals_padding_id_is_attended_to(model_class):
    ids = {"unknown_id": 1, "start_id": 10, "end_id": 0}
    model = made(model_class, padding_id=10, **ids)
    other = made(model_class, padding_id=9, **ids)
    other.set_weights(model.get_weights())
    inputs = {"source": np.array([[4, 5, 6, 0]]), "target": np.array([[10, 5, 6, 7]])}
    inputs = {name: inputs[name] for name in model.input}
    np.testing.assert_allclose(model(inputs), other(inputs), atol=1e-5)


@pytest.mark.parametrize(
    "settings", [{"attention": "alibi"}, {"positions": "learned"}], ids=name_of
)
def test_beam_search_of_language_model_equals_whole_passes(settings):
    """Also each prompt alone equals its row in the batch."""
    model = made(LanguageModel, **settings)
    models = whole_passes(model, [None] * len(PROMPTS))
    expected = [
        reference.beam_search(row, rules, **BEAMS)
        for row, rules in zip(models, rules_of_prompts(), strict=True)
    ]
    function = BeamSearch(lengths=LENGTHS, constraints=[NoRepeatNgram(2)], **BEAMS).function(model)
    found = function(PADDED_PROMPTS)
    assert_agrees(found, expected, hypotheses=2)
    for row, prompt in enumerate(PROMPTS):
        alone = function(np.array([prompt], "int32").reshape(1, len(prompt)))
        assert_same_found(alone, row_of(found, row))
    assert function.experimental_get_tracing_count() == 1


def test_greedy_search_of_transformer_equals_whole_passes():
    model, expected = made(Transformer), []
    for row, rules in zip(whole_passes(model, SOURCES), rules_of_sources(), strict=True):
        best, margin = reference.greedy_search(row, rules, 0.6)
        expected.append(([best], margin))
    assert_agrees(GreedySearch(lengths=LENGTHS)(model, source=SOURCES), expected)


@pytest.mark.parametrize("model_class", [Transformer, LanguageModel])
def test_sampling_scores_equal_whole_passes(model_class):
    model = made(model_class)
    is_translation = model_class is Transformer
    inputs = {"source": SOURCES} if is_translation else {"prefix": PADDED_PROMPTS}
    rules = rules_of_sources() if is_translation else rules_of_prompts()
    controls = () if is_translation else (NoRepeatNgram(2),)
    search = SamplingSearch(samples=3, length_penalty=0.6, lengths=LENGTHS, constraints=controls)
    models = whole_passes(model, SOURCES if is_translation else [None] * len(PROMPTS))
    assert_follows(search(model, **inputs, seed=3), models, rules, 0.6)


@pytest.mark.parametrize(
    ("model_class", "settings", "search"),
    [
        (Transformer, {"positions": "learned"}, BeamSearch(lengths=LENGTHS, **BEAMS)),
        (RecurrentSeq2Seq, {}, BeamSearch(lengths=LENGTHS, **BEAMS)),
        (RecurrentSeq2Seq, COVERING, BeamSearch(lengths=LENGTHS, **BEAMS)),
        (ConvolutionalSeq2Seq, {"copies": True}, BeamSearch(lengths=LENGTHS, **BEAMS)),
        (
            LanguageModel,
            {"positions": "learned"},
            SamplingSearch(samples=2, top_k=5, lengths=LENGTHS),
        ),
    ],
    ids=[
        "transformer-beam",
        "recurrent-beam",
        "covering-beam",
        "convolutional-beam",
        "language_model-sampling",
    ],
)
def test_search_compiled_by_xla_equals_eager_search(model_class, settings, search):
    model = made(model_class, **settings)
    is_continued = model_class is LanguageModel
    inputs = {"prefix": PADDED_PROMPTS} if is_continued else {"source": SOURCES}
    plain = search(model, **inputs)
    seeds = [tf.zeros([], spec.dtype) for spec in search.call_inputs.values()]
    compiled = search.function(model, jit_compile=True)(*inputs.values(), *seeds)
    assert_same_found(compiled, plain, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"attention": "shaw"},
        {"attention": "rotary", "num_key_value_heads": 2},
        {"attention": "alibi"},
        {"positions": "learned", "share_embeddings": "none"},
    ],
    ids=name_of,
)
@pytest.mark.parametrize("rows", [2, 6])
def test_growing_cache_equals_fixed_cache(settings, rows):
    """A padded prompt first, then token by token; the two numbers of rows compute logits in two
    ways.
    """
    model, random = made(Transformer, depth=2, **settings), np.random.default_rng(2)
    memory = model.encode(random.integers(4, 11, (rows, 5)))
    fixed = model.initial_state(memory, max_length=6)
    growing = model.initial_state(memory, max_length=tf.constant(6))
    prompt = np.array([[START, 5, 6]] * (rows - 1) + [[START, 7, 0]])
    for ids in (prompt, *random.integers(4, 11, (3, rows))):
        expected, expected_attention, fixed = model.step(ids, fixed, return_attention=True)
        logits, attention, growing = model.step(ids, growing, return_attention=True)
        np.testing.assert_allclose(logits, expected, atol=1e-5)
        np.testing.assert_allclose(attention, expected_attention, atol=1e-5)
        lengths = {cache.key.shape[2] for cache in growing["layers"]}
        assert lengths == {growing["position"].numpy()}
    assert fixed["layers"][0].key.shape[2] == 6


def test_cache_is_as_long_as_decoded_text():
    """It grows with each token. Under XLA the cache has a fixed size."""
    model, lengths = made(Transformer), []

    class Watched:
        position_limit = None
        encode = staticmethod(model.encode)
        initial_state = staticmethod(model.initial_state)

        def step(self, ids, state):
            logits, state = model.step(ids, state)
            cache = state["layers"][0]
            grows = isinstance(cache, GrowingKVCache)
            lengths.append(cache.key.shape[2] if grows else "fixed")
            return logits, state

    search = GreedySearch(lengths=LengthLimits(maximum=30, maximum_margin=24, minimum=5))
    found = search(Watched(), source=SOURCES)
    assert lengths == list(range(1, np.max(found.lengths) + 1))
    del lengths[:]
    search.function(Watched(), jit_compile=True).get_concrete_function()
    assert set(lengths) == {"fixed"}


def test_position_embedding_limits_length():
    """The model can read 12 tokens, start id included; it need not read the end id."""
    model, expected = made(LanguageModel, positions="learned"), []
    for row, prompt in zip(whole_passes(model, [None] * len(PROMPTS)), PROMPTS, strict=True):
        rules = Rules(prefix=prompt, minimum=12 - len(prompt), maximum=12 - len(prompt))
        best, margin = reference.greedy_search(row, rules, 0.6)
        expected.append(([best], margin))
    search = GreedySearch(lengths=at_most(30, minimum=30))
    found = search(model, prefix=PADDED_PROMPTS)
    assert_agrees(found, expected)
    assert np.all(found.lengths == 12)
