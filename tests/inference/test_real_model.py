"""Trained models: translations, scores and attention are consistent."""

import math

import pytest

from keras_transformer.inference import align, evaluate, load, score_pairs, translate_lines
from keras_transformer.inference.attention_maps import save_attention
from tests import phrases
from tests.inference.small_language_model import save_language_model

SOURCES, REFERENCES = zip(*phrases.make_pairs()[::5], strict=True)


@pytest.fixture(scope="module")
def text_model(phrases_export):
    return load(phrases_export)


@pytest.fixture(scope="module")
def translations(text_model):
    return list(translate_lines(text_model, SOURCES))


def test_evaluate_of_the_trained_model_finds_exact_matches(text_model):
    evaluation = evaluate(text_model, SOURCES, REFERENCES)
    assert evaluation.metrics["exact_match"] > 0.9
    assert evaluation.metrics["chrf"] > 95
    assert len(evaluation.worst) == min(
        10, round(evaluation.sentences * (1 - evaluation.metrics["exact_match"]))
    )


def test_translate_lines_is_independent_of_the_window(text_model, translations):
    by_three = list(translate_lines(text_model, SOURCES[:10], window=3))
    assert [each.texts for each in by_three] == [each.texts for each in translations[:10]]
    for each, other in zip(by_three, translations, strict=False):
        assert each.scores == pytest.approx(other.scores, abs=1e-4)


def test_translate_lines_with_n_best_begins_with_the_best(text_model, translations):
    for several, one in zip(
        translate_lines(text_model, SOURCES[:10], n_best=3), translations, strict=False
    ):
        assert several.text == one.text
        assert len(set(several.texts)) == len(several.texts) <= 3
        assert list(several.scores) == sorted(several.scores, reverse=True)


def test_score_pairs_agrees_with_the_score_of_the_search(text_model, translations):
    scored = score_pairs(text_model, SOURCES, [each.text for each in translations])
    for translation, score in zip(translations, scored, strict=True):
        # A text may have several tokenizations; the scored one may be less likely than that found.
        normalized = score.log_probability / ((5 + score.tokens) / 6) ** 0.6
        assert normalized <= translation.scores[0] + 1e-3
        assert score.perplexity == pytest.approx(math.exp(-score.log_probability / score.tokens))


def test_translate_lines_with_one_seed_repeats_its_samples(text_model):
    lines = ["zwei gelbe Pferde und ein Haus"] * 12

    def drawn(seed, window):
        found = translate_lines(text_model, lines, temperature=2.0, seed=seed, window=window)
        return [translation.text for translation in found]

    first = drawn(seed=1, window=12)
    assert first == drawn(seed=1, window=12)
    assert first != drawn(seed=2, window=12)
    # Equal lines get different texts, in one window and in several.
    assert len(set(first)) > 6
    assert len(set(drawn(seed=1, window=1))) > 6


def test_translate_lines_of_blank_lines_gives_blank_texts(text_model):
    blank = list(translate_lines(text_model, ["", "zwei rote Hunde", " \t"], n_best=2))
    assert [each.texts[0] for each in blank] == ["", "two red dogs", ""]
    assert (blank[0].texts, blank[0].scores) == (("",), (0.0,))


def test_align_covers_the_tokens_of_each_sentence(text_model):
    alignments = align(text_model, SOURCES[:5], REFERENCES[:5])
    for alignment, source, reference in zip(alignments, SOURCES, REFERENCES, strict=False):
        for text, tokens in (
            (source, alignment.source_tokens),
            (reference, alignment.target_tokens),
        ):
            assert "".join(tokens).replace("▁", " ").strip() == text + "<end>"
        # The attention weights of each target token sum to 1.
        assert alignment.weights.sum(axis=1) == pytest.approx(1.0, abs=1e-3)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    return load(save_language_model(tmp_path_factory.mktemp("runs") / "story"))


def test_translate_lines_of_a_language_model_continues_lines(language_model):
    lines = ["Hallo", "", "Es war"]
    for translation in translate_lines(language_model, lines, temperature=1.0):
        assert translation.text.startswith(translation.source)
        assert len(translation.text) > len(translation.source)


def test_save_attention_of_a_language_model_shows_the_prompt_once(language_model, tmp_path):
    translations = list(translate_lines(language_model, ["Es war"], temperature=1.0))
    save_attention(tmp_path / "story.html", language_model, translations)
    page = (tmp_path / "story.html").read_text(encoding="utf-8")
    head = page[page.index("<thead>") : page.index("</thead>")]
    # The columns are the start token and the prompt, which occurs only once.
    letters = "".join(f"<th>{token}</th>" for token in ("E", "s", "&lt;0x20&gt;", "w", "a", "r"))
    assert head.startswith(f"<thead><tr><th></th><th><i>&lt;start&gt;</i></th>{letters}")
    assert head.count(letters) == 1
