"""The translation module: a trained model in memory, and small models."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import (
    ConvolutionalSeq2Seq,
    LanguageModel,
    RecurrentSeq2Seq,
    Transformer,
)
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import (
    GreedySearch,
    LengthLimits,
    SamplingSearch,
    SearchSettings,
)
from keras_transformer.export import TextLimits, TrainedModel, export_model
from keras_transformer.export.modules import make_text_module
from keras_transformer.export.verification import check_export
from keras_transformer.text import ByteTokenizer, TokenizerPair, WordPieceTokenizer
from tests import phrases
from tests.export.modules.helpers import SMALL, assert_same, reloaded, translate
from tests.export.small_export import NAMES


def test_serving_default_translates_the_training_phrases(functions):
    sources, targets = zip(*phrases.make_pairs(), strict=True)
    texts, scores = translate(functions, sources)
    assert np.mean(texts == [target.encode() for target in targets]) > 0.98
    assert np.all(scores < 0)


def test_serving_default_of_a_batch_equals_single_rows(functions):
    texts = ["zwei rote Hunde", "neun graue Kühe und drei blaue Katzen", "", "x", "Fische " * 9]
    together, scores = translate(functions, texts)
    for row, text in enumerate(texts):
        alone, score = translate(functions, [text])
        assert alone[0] == together[row]
        np.testing.assert_allclose(score[0], scores[row], rtol=1e-4, atol=1e-4)


def test_serving_default_of_many_rows_keeps_their_order(functions):
    pairs = list(itertools.islice(itertools.cycle(phrases.make_pairs()), 1000))
    sources = [source if row % 7 else "" for row, (source, _) in enumerate(pairs)]
    texts, scores = translate(functions, sources)
    first, first_scores = translate(functions, sources[:250])
    for row in range(1000):
        if row % 7:
            assert texts[row] == first[row % 250] or not row % 250 % 7
        else:
            assert (texts[row], scores[row]) == (b"", 0)
    np.testing.assert_allclose(scores[:250], first_scores, rtol=1e-4, atol=1e-4)


def test_n_best_returns_distinct_texts_best_first(functions):
    texts, scores = translate(functions, ["zwei rote Hunde", ""], "n_best")
    best, score = translate(functions, ["zwei rote Hunde"])
    assert texts.shape == scores.shape == (2, 4)
    assert texts[0, 0] == best[0]
    np.testing.assert_allclose(scores[0, 0], score[0], rtol=1e-4)
    assert np.all(np.diff(scores[0]) <= 0)
    assert len(set(texts[0])) == 4
    assert np.all(texts[1] == b"")
    assert np.all(scores[1] == 0)


@pytest.mark.parametrize(
    "blank", ["", " ", "\n\t  ", "\u00a0\u2003\u3000", "\x0b\x1c\x85\u2028", " " * 20_000 + "zwei"]
)
def test_blank_texts_give_empty_texts_with_score_zero(functions, blank):
    text, score = translate(functions, [blank])
    assert (text[0], score[0]) == (b"", 0)
    scored = functions["score"](source=tf.constant([blank]), target=tf.constant([""]))
    assert scored["log_probability"].numpy() == [0]


def test_signatures_of_an_empty_batch_return_no_rows(functions):
    none = tf.zeros([0], tf.string)
    for name, function in functions.items():
        inputs = {
            key: none if tensor.axes else tf.ones([], tensor.dtype)
            for key, tensor in function.record.inputs.items()
        }
        outputs = function(**inputs)
        outputs.pop("state", None)  # of `next_tokens`: its rows are the tensors of a search
        assert all(value.shape[0] == 0 for value in outputs.values()), name


def test_long_text_is_cut_to_the_limit_of_tokens(functions):
    """A million characters cost no more than those within the limit."""
    phrase = "zwei rote Hunde und "
    long = translate(functions, [phrase * 5000, phrase * 50_000, phrase * 64])
    assert len(set(long[0])) == 1
    np.testing.assert_allclose(long[1], long[1][0], rtol=1e-4)
    tokens = functions["attention"](source=tf.constant([phrase * 5000]), target=tf.constant(["a"]))
    assert tokens["source_tokens"].shape[1] == phrases.LIMITS.tokens


def test_invalid_utf8_is_translated(functions):
    strange = [b"zwei \xff\xfe rote Hunde", b"\x80", b"\x00", b"\xf0\x9f"]
    texts, scores = translate(functions, strange)
    assert np.all(np.isfinite(scores))
    for text in texts:
        text.decode("utf-8")


def test_score_equals_the_score_of_the_search(functions):
    sources = [source for source, _ in phrases.make_pairs()[::10]] + ["", "Hunde Hunde", "drei"]
    texts, scores = translate(functions, sources)
    scored = functions["score"](source=tf.constant(sources), target=tf.constant(texts))
    tokens = scored["tokens"].numpy()
    exponent = phrases.SEARCH.length_penalty
    expected = scored["log_probability"].numpy() / ((5 + tokens) / 6) ** exponent
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)


def test_score_of_the_right_target_is_higher(functions):
    scored = functions["score"](
        source=tf.constant(["zwei rote Hunde"] * 2),
        target=tf.constant(["two red dogs", "three red dogs"]),
    )
    right, wrong = scored["log_probability"].numpy()
    assert right > wrong + 3


def test_sample_depends_on_seed_and_row_and_checks_temperature(functions):
    text = tf.constant(["zwei rote Hunde", "drei blaue Katzen"] * 4)

    def draw(text, temperature, seed):
        return functions["sample"](
            text=text, temperature=tf.constant(temperature), seed=tf.constant(seed)
        )["text"].numpy()

    wild = draw(text, 2.0, 1)
    assert np.all(wild == draw(text, 2.0, 1))
    assert np.any(wild != draw(text, 2.0, 2))
    assert len(set(wild[::2])) > 1  # rows with the same text have different draws
    assert np.all(draw(text[:3], 2.0, 1) == wild[:3])  # which do not depend on other rows
    mixed = tf.concat([text[:1], ["Vögel und Kühe und graue Fische"] * 3, text[4:5]], axis=0)
    assert draw(mixed, 2.0, 1)[[0, 4]].tolist() == wild[[0, 4]].tolist()
    tame = draw(text, 0.0, 1)
    assert set(tame) == {b"two red dogs", b"three blue cats"}
    with pytest.raises(tf.errors.InvalidArgumentError, match="`temperature` must be"):
        draw(text, -1.0, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`temperature` must be"):
        draw(text, float("inf"), 1)


def test_attention_rows_sum_to_one(functions):
    found = functions["attention"](
        source=tf.constant(["zwei rote Hunde", "drei"]),
        target=tf.constant(["two red dogs", "three"]),
    )
    weights = found["weights"].numpy()
    source, target = (found[f"{side}_tokens"].numpy() for side in ("source", "target"))
    assert weights.shape == (2, target.shape[1], source.shape[1])
    for row in range(2):
        is_token = target[row] != b""
        np.testing.assert_allclose(weights[row].sum(-1), is_token, atol=1e-5)
        assert np.all(weights[row][:, source[row] == b""] == 0)
    assert b"".join(source[0]).decode() == "▁zwei▁rote▁Hunde<end>"


def test_encode_returns_one_vector_a_text(functions):
    vectors = functions["encode"](text=tf.constant(["zwei rote Hunde", "zwei rote Hunde", ""]))
    vectors = vectors["embedding"].numpy()
    assert vectors.shape == (3, 64)
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-5)
    assert np.all(np.isfinite(vectors))


def test_unknown_words_are_copied_from_the_source():
    """The replacement is the source token with the highest attention."""
    tokenizer = WordPieceTokenizer(["the", "in", "house", "##s"])
    model = Transformer.from_size(
        "tiny", vocabulary_size=8, num_encoder_layers=1, num_decoder_layers=1, **SMALL
    )
    # A model that writes the unknown token, and attends only to the unknown source word.
    module = make_text_module(
        TrainedModel(model, TokenizerPair(tokenizer)),
        GreedySearch(lengths=LengthLimits(maximum=4, minimum=4)),
        TextLimits(tokens=16),
    )

    class Scripted:
        config = model.config
        encode = model.encode
        position_limit = None

        def initial_state(self, memory, max_length):
            return {"position": tf.constant(0), "memory": {"mask": memory.mask}}

        def step(self, ids, state, return_attention):
            said = tf.gather([4, 1, 6, 3], state["position"])
            rows = tf.shape(ids)[0]
            attention = tf.one_hot(tf.fill([rows], 2), tf.shape(state["memory"]["mask"])[1])
            logits = tf.tile(tf.one_hot([said], 8, on_value=9.0), [rows, 1])
            return logits, attention, {**state, "position": state["position"] + 1}

    object.__setattr__(module, "model", Scripted())
    found = module.functions["serving_default"](text=tf.constant(["in the Żabka", "in houses"]))
    assert [text.decode() for text in found["text"].numpy()] == ["the Żabka house", "thes house"]


SHORT = SearchSettings(beams=2, max_length=6)
BOUNDED = {
    "encoder": (Transformer, {"encoder_attention": "linformer"}, "encoder_attention_options"),
    "cross": (Transformer, {"cross_attention": "location_based"}, "cross_attention_options"),
    "recurrent": (RecurrentSeq2Seq, {"attention": "location_based"}, "attention_options"),
}


@pytest.mark.parametrize("kind", BOUNDED)
def test_source_is_cut_to_the_length_of_a_bounded_mechanism(kind):
    """Neither a long text of the batch nor XLA's padding exceeds the mechanism's length."""
    cls, settings, options = BOUNDED[kind]
    sizes = {"hidden_dim": 16, "max_length": 64, "num_encoder_layers": 1, "num_decoder_layers": 1}
    if cls is Transformer:
        sizes |= {"intermediate_dim": 32, "num_heads": 2}
    settings = {**sizes, **settings, options: {"max_length": 20}, "vocabulary_size": 260}
    trained = TrainedModel(cls(**settings), TokenizerPair(ByteTokenizer()))
    functions = make_text_module(trained, SHORT, xla=True).functions
    texts, scores = translate(functions, ["hi", "x" * 40, "x" * 19, "x" * 17])
    assert (texts[1], scores[1]) == (texts[2], scores[2])
    with pytest.raises(UserError, match="at most 20 tokens, not 21"):
        make_text_module(trained, SHORT, TextLimits(tokens=21))


def test_impossible_limits_and_searches_raise_an_error():
    tokenizer = ByteTokenizer()
    sizes = {**SMALL, "vocabulary_size": 260, "positions": "learned"}
    translator = TrainedModel(
        Transformer.from_size("tiny", num_encoder_layers=1, num_decoder_layers=1, **sizes),
        tokenizer,
    )
    writer = TrainedModel(LanguageModel.from_size("tiny", num_layers=1, **sizes), tokenizer)
    with pytest.raises(UserError, match="learned 32 positions: texts may have at most 32 tokens"):
        make_text_module(translator, limits=TextLimits(tokens=33))
    with pytest.raises(UserError, match="at most 31 tokens, not 32"):
        make_text_module(writer, limits=TextLimits(tokens=32))
    with pytest.raises(UserError, match="coverage_penalty"):
        make_text_module(writer, SearchSettings(coverage_penalty=0.2))
    with pytest.raises(UserError, match="signature `sample`"):
        make_text_module(translator, SamplingSearch())


def test_module_compiled_by_xla_gives_the_same_answers(phrases_run, functions):
    trained = TrainedModel.load(phrases_run)
    compiled = make_text_module(trained, phrases.SEARCH, phrases.LIMITS, xla=True).functions
    texts = ["zwei rote Hunde", "neun graue Kühe und drei blaue Katzen", ""]
    plain, scores = translate(functions, texts)
    fast, fast_scores = translate(compiled, texts)
    assert plain.tolist() == fast.tolist()
    np.testing.assert_allclose(scores, fast_scores, rtol=1e-3, atol=1e-4)
    settings = {"temperature": tf.constant(1.5), "seed": tf.constant(3)}
    plain, fast = (f["sample"](text=tf.constant(texts), **settings) for f in (functions, compiled))
    assert plain["text"].numpy().tolist() == fast["text"].numpy().tolist()


COPYING = {"copies": True, "coverage_weight": 1.0}
COVERING = {"attention": "additive", "coverage_attention": True, **COPYING}


@pytest.mark.slow
def test_export_of_a_recurrent_model_compiled_by_xla_is_replayed(tmp_path):
    """`export_model` replays the golden pairs in a clean process before the directory appears."""
    trained = make_seq2seq(RecurrentSeq2Seq, COVERING)
    path = export_model(trained, tmp_path / "small", search=SHORT, xla=True, portable=True)
    checked = check_export(path)
    assert checked.manifest["kind"] == "RecurrentSeq2Seq"
    assert {pair["signature"] for pair in checked.manifest["golden"]} >= set(NAMES)


@pytest.mark.parametrize(
    ("model_class", "settings"),
    [
        (RecurrentSeq2Seq, {}),
        (RecurrentSeq2Seq, COVERING),
        (ConvolutionalSeq2Seq, {}),
        (ConvolutionalSeq2Seq, COPYING),
    ],
    ids=["recurrent", "recurrent-copying", "convolutional", "convolutional-copying"],
)
def test_saved_module_of_other_model_classes_answers_alike(model_class, settings, tmp_path):
    trained = make_seq2seq(model_class, settings)
    module = make_text_module(trained, SHORT, stored_dtype="float32")
    saved = reloaded(module, tmp_path, "serving_default", "attention")
    texts, targets = tf.constant(["ab", "", "x" * 40]), tf.constant(["a", "", "xyz"])
    inputs = {
        "serving_default": {"text": texts},
        "attention": {"source": texts, "target": targets},
    }
    for name, tensors in inputs.items():
        assert_same(saved.signatures[name](**tensors), module.functions[name](**tensors))


def make_seq2seq(model_class, settings):
    sizes = {"hidden_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 2, "max_length": 16}
    model = model_class.from_size("tiny", vocabulary_size=260, **sizes, **settings)
    return TrainedModel(model, ByteTokenizer())
