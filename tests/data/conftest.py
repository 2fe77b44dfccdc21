"""Token caches of small corpora, with sentences of many lengths."""

import numpy as np
import pytest

from keras_transformer.data import LabelIndex, MemoryCorpus, tokenize_corpus
from keras_transformer.text import ByteTokenizer
from keras_transformer.text.registry import TOKENIZERS


def make_texts(count, seed, longest=40):
    """Returns texts of 1 to `longest` letters; texts of different seeds have correlated lengths."""
    generator = np.random.default_rng(7)
    lengths = np.clip(generator.gamma(4, longest / 12, count), 1, longest)
    generator = np.random.default_rng(seed)
    lengths = np.clip(lengths * generator.uniform(0.8, 1.2, count), 1, longest).astype(int)
    letters = generator.integers(ord("a"), ord("z") + 1, (count, longest)).astype(np.uint8)
    return [bytes(row[:length]).decode() for row, length in zip(letters, lengths, strict=True)]


@pytest.fixture
def make_cache(tmp_path):
    """Returns a function that makes the token cache of examples, with bytes as tokens."""

    def make(examples, columns=("source", "target"), **options):
        tokenizers = dict.fromkeys(columns, ByteTokenizer())
        if "label" in columns:
            tokenizers["label"] = LabelIndex(sorted({label for _, label in examples}))
        corpus = MemoryCorpus(examples, columns)
        return tokenize_corpus(corpus, tokenizers, tmp_path / "caches", **options)

    return make


@pytest.fixture
def pairs():
    """Returns 300 different pairs of texts."""
    return list(zip(make_texts(300, seed=1), make_texts(300, seed=2), strict=True))


@pytest.fixture
def documents():
    """Returns 300 different documents, a few of them long."""
    return [(text * 6 if n % 50 == 0 else text,) for n, text in enumerate(make_texts(300, seed=3))]


@pytest.fixture(autouse=True)
def _restore_tokenizers():
    """Removes the kinds of tokenizers that a test defines."""
    yield
    for name in [name for name, kind in TOKENIZERS.items() if kind.__module__.startswith("tests")]:
        del TOKENIZERS[name]
