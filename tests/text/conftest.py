"""Fixtures: a small real corpus in many scripts, and a tokenizer of every kind learned from it."""

import babel
import pytest

from keras_transformer.text import ByteTokenizer, learn_tokenizer

LANGUAGES = (
    *("ar", "cs", "de", "el", "en", "es", "fi", "fr", "he", "hi", "hu", "id", "it", "ja", "ko"),
    *("nl", "pl", "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh"),
)


def names_from_cldr():
    """Yields names of countries in 26 languages: about 7,500 lines of CLDR."""
    for language in LANGUAGES:
        locale = babel.Locale(language)
        for name in locale.territories.values():
            yield f"{name} ({locale.get_display_name(language)})"


@pytest.fixture(scope="session")
def corpus():
    return list(names_from_cldr())


@pytest.fixture(scope="session")
def silent():
    """Returns a progress callback that shows nothing."""
    return lambda stage, done, total: None


@pytest.fixture(scope="session")
def tokenizers(corpus, silent):
    """Returns every kind and variant by name; each session learns them once."""
    return {
        "bytes": ByteTokenizer(),
        "unigram": learn_tokenizer("sentencepiece", corpus, 3000, progress=silent),
        "bpe": learn_tokenizer("sentencepiece", corpus, 3000, model="bpe", progress=silent),
        "wordpiece": learn_tokenizer("wordpiece", corpus, 7000, progress=silent),
        "wordpiece_lowercase": learn_tokenizer(
            "wordpiece", corpus, 7000, lowercase=True, progress=silent
        ),
    }
