"""Strings in, strings out: what each signature does, in memory."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import LanguageModel, RecurrentSeq2Seq, TextEncoder, Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import (
    BeamSearch,
    GreedySearch,
    LengthLimits,
    SamplingSearch,
    SearchSettings,
)
from keras_transformer.export import TextLimits, TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.text import ByteTokenizer, TokenizerPair, WordPieceTokenizer
from tests import phrases

SMALL = {"hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "max_length": 32}


def translate(functions, texts, signature="serving_default"):
    found = functions[signature](text=tf.constant(texts, tf.string))
    return found["text"].numpy(), found["score"].numpy()


def test_it_has_learned(functions):
    sources, targets = zip(*phrases.make_pairs(), strict=True)
    texts, scores = translate(functions, sources)
    assert np.mean(texts == [target.encode() for target in targets]) > 0.98
    assert np.all(scores < 0)


def test_batch_equals_single(functions):
    texts = ["zwei rote Hunde", "neun graue Kühe und drei blaue Katzen", "", "x", "Fische " * 9]
    together, scores = translate(functions, texts)
    for row, text in enumerate(texts):
        alone, score = translate(functions, [text])
        assert alone[0] == together[row]
        np.testing.assert_allclose(score[0], scores[row], rtol=1e-4, atol=1e-4)


def test_a_thousand_rows_of_mixed_lengths(functions):
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


def test_n_best(functions):
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
def test_blank_texts(functions, blank):
    text, score = translate(functions, [blank])
    assert (text[0], score[0]) == (b"", 0)
    scored = functions["score"](source=tf.constant([blank]), target=tf.constant([""]))
    assert scored["log_probability"].numpy() == [0]


def test_an_empty_batch(functions):
    none = tf.zeros([0], tf.string)
    for name, function in functions.items():
        inputs = {
            key: none if spec.shape.rank else tf.ones([], spec.dtype)
            for key, spec in function.inputs.items()
        }
        assert all(value.shape[0] == 0 for value in function(**inputs).values()), name


def test_a_text_is_cut_after_so_many_tokens(functions):
    """A million characters cost no more than those that are seen."""
    phrase = "zwei rote Hunde und "
    long = translate(functions, [phrase * 5000, phrase * 50_000, phrase * 64])
    assert len(set(long[0])) == 1
    np.testing.assert_allclose(long[1], long[1][0], rtol=1e-4)
    tokens = functions["attention"](source=tf.constant([phrase * 5000]), target=tf.constant(["a"]))
    assert tokens["source_tokens"].shape[1] == phrases.LIMITS.tokens


def test_bytes_that_are_no_text(functions):
    strange = [b"zwei \xff\xfe rote Hunde", b"\x80", b"\x00", b"\xf0\x9f"]
    texts, scores = translate(functions, strange)
    assert np.all(np.isfinite(scores))
    for text in texts:
        text.decode("utf-8")


def test_score_is_what_the_search_reported(functions):
    sources = [source for source, _ in phrases.make_pairs()[::10]] + ["", "Hunde Hunde", "drei"]
    texts, scores = translate(functions, sources)
    scored = functions["score"](source=tf.constant(sources), target=tf.constant(texts))
    tokens = scored["tokens"].numpy()
    exponent = phrases.SEARCH.length_penalty
    expected = scored["log_probability"].numpy() / ((5 + tokens) / 6) ** exponent
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)


def test_score_prefers_the_truth(functions):
    scored = functions["score"](
        source=tf.constant(["zwei rote Hunde"] * 2),
        target=tf.constant(["two red dogs", "three red dogs"]),
    )
    right, wrong = scored["log_probability"].numpy()
    assert right > wrong + 3


def test_sampling(functions):
    text = tf.constant(["zwei rote Hunde", "drei blaue Katzen"] * 4)

    def draw(text, temperature, seed):
        return functions["sample"](
            text=text, temperature=tf.constant(temperature), seed=tf.constant(seed)
        )["text"].numpy()

    wild = draw(text, 2.0, 1)
    assert np.all(wild == draw(text, 2.0, 1))
    assert np.any(wild != draw(text, 2.0, 2))
    assert len(set(wild[::2])) > 1  # each row draws for itself
    assert np.all(draw(text[:3], 2.0, 1) == wild[:3])  # and whatever the others are
    mixed = tf.concat([text[:1], ["Vögel und Kühe und graue Fische"] * 3, text[4:5]], axis=0)
    assert draw(mixed, 2.0, 1)[[0, 4]].tolist() == wild[[0, 4]].tolist()
    tame = draw(text, 0.0, 1)
    assert set(tame) == {b"two red dogs", b"three blue cats"}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"temperature.*must not be negative"):
        draw(text, -1.0, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be a finite number"):
        draw(text, float("inf"), 1)


def test_attention(functions):
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


def test_encode(functions):
    vectors = functions["encode"](text=tf.constant(["zwei rote Hunde", "zwei rote Hunde", ""]))
    vectors = vectors["embedding"].numpy()
    assert vectors.shape == (3, 64)
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-5)
    assert np.all(np.isfinite(vectors))


def test_unknown_words_are_copied():
    """The word that the vocabulary lacks is taken from where the model looked."""
    tokenizer = WordPieceTokenizer(["the", "in", "house", "##s"])
    model = Transformer.from_preset(
        "tiny", vocabulary_size=8, num_encoder_layers=1, num_decoder_layers=1, **SMALL
    )
    # A model that says UNKNOWN twice, and looks at one place only: at the word that is unknown.
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


@pytest.mark.parametrize("attention", ["scaled_dot_product", "rotary"])
def test_a_language_model_goes_on(attention):
    model = LanguageModel.from_preset(
        "tiny", vocabulary_size=260, num_layers=2, attention=attention, **SMALL
    )
    functions = make_text_module(
        TrainedModel(model, TokenizerPair(ByteTokenizer())), SearchSettings(beams=2, max_length=8)
    ).functions
    prompts = tf.constant(["Once", "", "Once upon a time there was a very long beginning of"])
    found = functions["serving_default"](text=prompts)
    texts = found["text"].numpy()
    assert texts[0].startswith(b"Once")
    assert texts[2].startswith(b"a very long beginning of")  # the last 24 of its 32 positions
    for row in range(3):
        alone = functions["serving_default"](text=prompts[row : row + 1])
        assert alone["text"].numpy()[0] == texts[row]
    # What the search reports is what the model gives the text, given its beginning.
    added = tf.strings.substr(texts[:2], [4, 0], [99, 99])
    scored = functions["score"](source=prompts[:2], target=added)
    tokens = tf.cast(scored["tokens"], tf.float32)
    np.testing.assert_allclose(
        found["score"][:2], scored["log_probability"] / ((5 + tokens) / 6) ** 0.6, rtol=1e-3
    )
    attention = functions["attention"](source=prompts[:2], target=tf.constant([" upon", "a"]))
    assert attention["source_tokens"][0, 0] == b"<start>"
    assert attention["weights"].shape == (2, 10, 10)
    assert functions["encode"](text=prompts)["embedding"].shape == (3, 16)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_a_prompt_is_seen_however_much_may_be_added(positions):
    """Half of the model's length is its own."""
    model = LanguageModel.from_preset(
        "tiny", vocabulary_size=260, num_layers=1, positions=positions, **SMALL
    )
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    for max_length in (20, 32, 100):
        module = make_text_module(trained, SearchSettings(max_length=max_length))
        assert module.limits.tokens == 16
        found = module.functions["serving_default"](text=tf.constant(["Once upon a time"]))
        assert found["text"].numpy()[0].startswith(b"Once upon a time")


def test_a_long_source_leaves_the_target_of_a_language_model_whole():
    model = LanguageModel.from_preset("tiny", vocabulary_size=260, num_layers=1, **SMALL)
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    score = make_text_module(trained, limits=TextLimits(tokens=100)).functions["score"]
    target = "hello"
    seen = 32 - len(target) - 1  # END is scored, too
    sources = ["x" * 80, "y" * 40 + "x" * seen, "x" * seen, "x" * (seen - 1), ""]
    found = score(source=tf.constant(sources), target=tf.fill([len(sources)], target))
    assert found["tokens"].numpy().tolist() == [6] * len(sources)
    scores = found["log_probability"].numpy()
    np.testing.assert_allclose(scores[:2], scores[2], rtol=1e-5)
    assert abs(scores[3] - scores[2]) > 1e-4


BOUNDED = {
    "encoder": (Transformer, {"encoder_attention": "linformer"}, "encoder_attention_options"),
    "cross": (Transformer, {"cross_attention": "location_based"}, "cross_attention_options"),
    "recurrent": (RecurrentSeq2Seq, {"attention": "location_based"}, "attention_options"),
}


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("kind", BOUNDED)
def test_sources_end_where_a_mechanism_ends(kind, xla):
    """One long text does not fail the others of its batch, nor does what XLA pads it with."""
    cls, settings, options = BOUNDED[kind]
    sizes = {"hidden_dim": 16, "max_length": 64, "num_encoder_layers": 1, "num_decoder_layers": 1}
    if cls is Transformer:
        sizes |= {"intermediate_dim": 32, "num_heads": 2}
    settings = {**sizes, **settings, options: {"max_length": 20}, "vocabulary_size": 260}
    trained = TrainedModel(cls(cls.config_class(**settings)), TokenizerPair(ByteTokenizer()))
    search = SearchSettings(beams=2, max_length=6)
    functions = make_text_module(trained, search, xla=xla).functions
    texts, scores = translate(functions, ["hi", "x" * 40, "x" * 19, "x" * 17])
    assert (texts[1], scores[1]) == (texts[2], scores[2])
    with pytest.raises(UserError, match="texts may have 20 tokens at most, not 21"):
        make_text_module(trained, search, TextLimits(tokens=21))


def test_a_classifier():
    model = TextEncoder.from_preset(
        "tiny", vocabulary_size=260, num_layers=1, num_classes=2, **SMALL
    )
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()), labels=("no", "yes"))
    functions = make_text_module(trained).functions
    found = functions["classify"](text=tf.constant(["good", "bad", "", "long " * 50]))
    assert set(found["label"].numpy()) <= {b"no", b"yes"}
    np.testing.assert_allclose(tf.reduce_sum(found["probabilities"], axis=1), 1, rtol=1e-5)
    vectors = functions["serving_default"](text=tf.constant(["good"]))["embedding"]
    assert vectors.shape == (1, 16)
    with pytest.raises(UserError, match="2 classes apart, but there are 1 labels"):
        make_text_module(TrainedModel(model, trained.tokenizers, labels=("no",)))
    with pytest.raises(UserError, match="writes no text: there is nothing to search"):
        make_text_module(trained, search=BeamSearch())


def test_what_could_only_fail_later_is_refused():
    tokenizer = ByteTokenizer()
    sizes = {**SMALL, "vocabulary_size": 260, "positions": "learned"}
    translator = TrainedModel(
        Transformer.from_preset("tiny", num_encoder_layers=1, num_decoder_layers=1, **sizes),
        tokenizer,
    )
    writer = TrainedModel(LanguageModel.from_preset("tiny", num_layers=1, **sizes), tokenizer)
    with pytest.raises(UserError, match="learned 32 positions: texts may have 32 tokens at most"):
        make_text_module(translator, limits=TextLimits(tokens=33))
    with pytest.raises(UserError, match="texts may have 31 tokens at most, not 32"):
        make_text_module(writer, limits=TextLimits(tokens=32))
    with pytest.raises(UserError, match="leave out the `coverage_penalty`"):
        make_text_module(writer, SearchSettings(coverage_penalty=0.2))
    with pytest.raises(UserError, match="To sample, call its signature `sample`"):
        make_text_module(translator, SamplingSearch())


def test_compiled_by_xla_it_says_the_same(phrases_run, functions):
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
