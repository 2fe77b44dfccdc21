"""Processing of lines by a model: one result per line, in order, as soon as it is available."""

import itertools

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.inference import translate_lines
from tests.inference.shouting_model import N_BEST, ShoutingModel, score_of, shout

LINES = [f"Satz {n} " + "ä" * (n * 7 % 13) for n in range(100)]


@pytest.fixture
def model():
    return ShoutingModel()


def test_translate_lines_returns_translations_in_order(model):
    translations = list(translate_lines(model, LINES, window=32))
    assert [translation.source for translation in translations] == LINES
    assert [translation.text for translation in translations] == [shout(line) for line in LINES]
    assert [translation.texts for translation in translations] == [(shout(x),) for x in LINES]
    scores = [translation.scores for translation in translations]
    assert scores == [(pytest.approx(score_of(shout(line))),) for line in LINES]
    assert max(rows for _, rows in model.calls) == 32


def test_translate_lines_keeps_blank_lines(model):
    assert [t.text for t in translate_lines(model, ["", "a", "  ", ""])] == ["", "A", "", ""]


def test_translate_lines_of_no_lines_calls_nothing(model):
    assert list(translate_lines(model, [])) == []
    assert model.calls == []


def test_translate_lines_of_endless_lines_returns_the_first(model):
    endless = (f"Zeile {n}" for n in itertools.count())
    first = list(itertools.islice(translate_lines(model, endless), 20))
    assert [translation.text for translation in first] == [f"ZEILE {n}" for n in range(20)]


def test_n_best_leaves_out_empty_places(model):
    (translation,) = translate_lines(model, ["ja"], n_best=N_BEST)
    assert translation.texts == ("JA", "ja")
    assert translation.scores == pytest.approx((score_of("ja"), score_of("ja") - 1))
    (translation,) = translate_lines(model, ["ja"], n_best=2)
    assert translation.texts == ("JA", "ja")


def test_n_best_texts_are_distinct(model):
    """The search may find several hypotheses that spell one text."""
    (translation,) = translate_lines(model, ["JA"], n_best=N_BEST)
    assert translation.texts == ("JA",)
    assert translation.scores == pytest.approx((score_of("JA"),))


def test_n_best_above_the_number_of_beams_raises_an_error(model):
    with pytest.raises(UserError) as caught:
        list(translate_lines(model, ["ja"], n_best=N_BEST + 1))
    assert str(caught.value).startswith("shouting: `n_best` must be at most 3, ")
    assert "got 4" in str(caught.value)


def test_samples_have_another_seed_for_each_window(model):
    translations = translate_lines(model, LINES[:7], temperature=0.5, seed=40, window=3)
    seeds = [40, 40, 40, 43, 43, 43, 46]
    expected = [f"{line} 0.5 {seed}" for line, seed in zip(LINES, seeds, strict=False)]
    assert [translation.text for translation in translations] == expected
    assert model.calls == [("sample", 3), ("sample", 3), ("sample", 1)]


def test_seeds_wrap_around_after_the_largest(model):
    translations = translate_lines(model, ["a", "b"], temperature=1, seed=2**31 - 1, window=1)
    assert [translation.text for translation in translations] == ["a 1.0 2147483647", "b 1.0 0"]


def test_translation_replaces_invalid_utf8(model):
    serving_default = model.signatures["serving_default"]

    def broken(text):
        answer = serving_default(text=text)
        return {**answer, "text": answer["text"] + b"\xff!"}

    model.signatures["serving_default"] = broken
    assert [t.text for t in translate_lines(model, ["a"])] == ["A\ufffd!"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_best": 0}, "`n_best` must be a whole number of at least 1; got 0."),
        ({"window": 0}, "`window` must be a whole number of at least 1; got 0."),
        ({"temperature": -1.0}, "`temperature` must be a finite number of at least 0; got -1.0."),
        ({"temperature": 1e300}, "`temperature` must be 0, or from 0.0001 to 10000; got 1e+300."),
        ({"temperature": 1e-9}, "`temperature` must be 0, or from 0.0001 to 10000; got 1e-09."),
        ({"temperature": 1.0, "seed": -1}, "`seed` must be a whole number of at least 0; got -1."),
        ({"temperature": 1.0, "seed": 2**31}, "`seed` must be below 2**31; got 2147483648."),
        (
            {"temperature": 1.0, "n_best": 2},
            "`n_best` must be 1 with a `temperature`, which samples one text; got 2.",
        ),
    ],
)
def test_invalid_settings_raise_an_error_before_the_first_line(model, settings, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        translate_lines(model, iter(["line"]), **settings)
    assert str(caught.value) == message


def test_translate_lines_of_an_encoder_raises_an_error():
    with pytest.raises(UserError) as caught:
        translate_lines(ShoutingModel("TextEncoder", "sentiment"), ["line"])
    assert str(caught.value) == (
        "sentiment: a TextEncoder does not offer `generate`; it offers embed, classify."
    )


LARGE = {
    "serving_default": lambda model, lines: list(translate_lines(model, lines)),
    "n_best": lambda model, lines: list(translate_lines(model, lines, n_best=2)),
    "sample": lambda model, lines: list(translate_lines(model, lines, temperature=1)),
    "score": lambda model, lines: model.score(lines, lines),
    "attention": lambda model, lines: model.attention(lines, lines),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("change", [2, 0], ids=["twice as many", "none"])
def test_other_numbers_of_rows_than_lines_are_an_error(model, name, change):
    function = model.signatures[name]

    def wrong(**inputs):
        return {key: tf.repeat(value, change, axis=0) for key, value in function(**inputs).items()}

    model.signatures[name] = wrong
    with pytest.raises(UserError) as caught:
        LARGE[name](model, ["a", "b", "c"])
    assert f"shouting: the signature '{name}' must give one row of " in str(caught.value)
    assert "for 3 texts" in str(caught.value)


@pytest.mark.parametrize(("method", "name"), [("embed", "encode"), ("classify", "classify")])
def test_other_numbers_of_vectors_than_texts_are_an_error(method, name):
    model = ShoutingModel("TextEncoder")
    function = model.signatures[name]
    model.signatures[name] = lambda text: {
        key: tf.repeat(value, 2, axis=0) for key, value in function(text=text).items()
    }
    with pytest.raises(UserError, match="for 2 texts"):
        getattr(model, method)(["a", "b"])


def test_lone_surrogates_are_an_error(model):
    with pytest.raises(UserError, match=r"U\+D800"):
        list(translate_lines(model, ["fine", "\ud800"]))
