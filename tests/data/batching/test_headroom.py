"""Headroom for sampled segmentations, which are longer than those of the cache."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import (
    MemoryCorpus,
    PairBatches,
    choose_buckets,
    measure_headroom,
    tokenize_corpus,
)
from keras_transformer.text import ByteTokenizer, learn_tokenizer
from tests.phrases import make_pairs


@pytest.fixture
def cache(tmp_path):
    corpus = MemoryCorpus([("a" * (1 + number % 20), "b") for number in range(2000)])
    return tokenize_corpus(corpus, ByteTokenizer(), tmp_path, keep_text=True)


def longer_for_few(strings, seed):
    """Returns ids of which one row in twenty is three times as long, the others twice."""
    ids = ByteTokenizer().tokenize(strings)
    times = tf.where(tf.range(ids.nrows()) % 20 == 7, 3, 2)
    rows = [row * int(factor) for row, factor in zip(ids.to_list(), times, strict=True)]
    return tf.ragged.constant(rows, tf.int32)


def test_headroom_fits_nine_in_ten_samples(cache):
    assert measure_headroom(cache, {"source": longer_for_few}) == (2.0, 1.0)


def test_headroom_of_shorter_samples_is_one(cache):
    tokenizer = ByteTokenizer()
    samplers = {"target": lambda strings, seed: tokenizer.tokenize(strings)[:, :0]}
    assert measure_headroom(cache, samplers) == (1.0, 1.0)


@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_most_samples_of_real_tokenizer_fit(tmp_path, model):
    pairs = make_pairs()
    texts = (text for pair in pairs for text in pair)
    tokenizer = learn_tokenizer("sentencepiece", texts, 300, model=model, progress=None)
    cache = tokenize_corpus(MemoryCorpus(pairs), tokenizer, tmp_path, keep_text=True)
    fitting = 0

    def sample(strings, seed):
        return tokenizer.sample(strings, seed, alpha=0.3)

    samplers = {"source": sample, "target": sample}
    table = choose_buckets(cache, headroom=measure_headroom(cache, samplers))
    assert min(table.headroom) > 1
    batches = PairBatches(cache, table, seed=1, samplers=samplers)
    for number in range(len(batches)):
        index, examples = batches.plan(0)[number]
        length = table[index].lengths[0]
        texts = tf.constant(cache.columns["source"].texts(examples))
        fitting += np.count_nonzero(sample(texts, seed=number).row_lengths() < length)
    assert fitting > 0.85 * len(cache)
