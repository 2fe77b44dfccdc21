"""Lines through a model: in order, one answer each, as soon as can be."""

import itertools

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.inference import translate_lines
from tests.inference.shouting_model import N_BEST, ShoutingModel, score_of, shout

LINES = [f"Satz {n} " + "ä" * (n * 7 % 13) for n in range(100)]


@pytest.fixture
def model():
    return ShoutingModel()


def test_each_line_gets_its_translation(model):
    translations = list(translate_lines(model, LINES, window=32))
    assert [translation.source for translation in translations] == LINES
    assert [translation.text for translation in translations] == [shout(line) for line in LINES]
    assert [translation.texts for translation in translations] == [(shout(x),) for x in LINES]
    scores = [translation.scores for translation in translations]
    assert scores == [(pytest.approx(score_of(shout(line))),) for line in LINES]
    assert max(rows for _, rows in model.calls) == 32


def test_blank_lines_stay_in_their_place(model):
    assert [t.text for t in translate_lines(model, ["", "a", "  ", ""])] == ["", "A", "", ""]


def test_no_lines(model):
    assert list(translate_lines(model, [])) == []
    assert model.calls == []


def test_lines_without_an_end(model):
    endless = (f"Zeile {n}" for n in itertools.count())
    first = list(itertools.islice(translate_lines(model, endless), 20))
    assert [translation.text for translation in first] == [f"ZEILE {n}" for n in range(20)]


def test_n_best_without_the_places_that_are_empty(model):
    (translation,) = translate_lines(model, ["ja"], n_best=N_BEST)
    assert translation.texts == ("JA", "ja")
    assert translation.scores == pytest.approx((score_of("ja"), score_of("ja") - 1))
    (translation,) = translate_lines(model, ["ja"], n_best=2)
    assert translation.texts == ("JA", "ja")


def test_n_best_are_different_texts(model):
    """The search may find several hypotheses that spell one text."""
    (translation,) = translate_lines(model, ["JA"], n_best=N_BEST)
    assert translation.texts == ("JA",)
    assert translation.scores == pytest.approx((score_of("JA"),))


def test_more_than_the_model_gives(model):
    with pytest.raises(UserError) as caught:
        list(translate_lines(model, ["ja"], n_best=N_BEST + 1))
    assert str(caught.value) == (
        "shouting: gives 3 texts for a line, not 4: as many as its search has beams. Lower "
        "`n_best`, or raise `beams`, of an export when it is made."
    )


def test_samples_get_another_seed_for_each_window(model):
    translations = translate_lines(model, LINES[:7], temperature=0.5, seed=40, window=3)
    seeds = [40, 40, 40, 43, 43, 43, 46]
    expected = [f"{line} 0.5 {seed}" for line, seed in zip(LINES, seeds, strict=False)]
    assert [translation.text for translation in translations] == expected
    assert model.calls == [("sample", 3), ("sample", 3), ("sample", 1)]


def test_the_largest_seed_goes_round(model):
    translations = translate_lines(model, ["a", "b"], temperature=1, seed=2**31 - 1, window=1)
    assert [translation.text for translation in translations] == ["a 1.0 2147483647", "b 1.0 0"]


def test_bytes_that_are_no_utf8_are_readable(model):
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
        ({"temperature": 1.0, "seed": -1}, "`seed` must be a whole number of at least 0; got -1."),
        ({"temperature": 1.0, "seed": 2**31}, "`seed` must be below 2**31; got 2147483648."),
        (
            {"temperature": 1.0, "n_best": 2},
            "`n_best` is for the model's search: it must be 1 with a `temperature`.",
        ),
    ],
)
def test_settings_are_checked_before_the_first_line(model, settings, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        translate_lines(model, iter(["line"]), **settings)
    assert str(caught.value) == message


def test_an_encoder_translates_nothing():
    with pytest.raises(UserError) as caught:
        translate_lines(ShoutingModel("TextEncoder", "sentiment"), ["line"])
    assert str(caught.value) == (
        "sentiment: is a TextEncoder, which gives no texts. Name a Transformer or a LanguageModel."
    )
