"""Trees that are carried along with batches."""

import numpy as np
import pytest

from keras_transformer.data import (
    ConlluCorpus,
    DependencyTree,
    PairBatches,
    TreeBatches,
    choose_buckets,
    tokenize_corpus,
)
from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.models import Transformer
from keras_transformer.text import ByteTokenizer, WordPieceTokenizer, learn_tokenizer

WORDS = ["dogs", "sleep", "in", "the", "house", "."]
TREE = DependencyTree(tuple(WORDS), heads=(2, 0, 5, 5, 2, 2))


@pytest.fixture
def write(tmp_path):
    """A function that writes trees and targets, and makes the corpus."""

    def make(trees):
        source, target = tmp_path / "de.conllu", tmp_path / "en.txt"
        source.write_text("".join(tree.conllu + "\n\n" for tree in trees), encoding="utf-8")
        target.write_text("".join(" ".join(tree.words[::-1]) + "\n" for tree in trees))
        return ConlluCorpus(source, target)

    return make


@pytest.fixture
def trees(write, tmp_path):
    """A corpus of sentences whose words hang in a chain, and its cache."""
    sentences = [tuple(WORDS[: 1 + n % 6]) for n in range(20)]
    corpus = write([DependencyTree(words, tuple(range(len(words)))) for words in sentences])
    return corpus, tokenize_corpus(corpus, ByteTokenizer(), tmp_path / "caches")


def test_every_piece_takes_its_words_number(write, tmp_path):
    tokenizer = WordPieceTokenizer(["dog", "##s", "sleep", "in", "the", "h", "##ouse", "."])
    corpus = write([TREE, DependencyTree(("?!", "dogs"), (2, 0))])
    cache = tokenize_corpus(corpus, tokenizer, tmp_path / "caches")
    table = choose_buckets(cache, max_buckets=1)
    inputs, _ = TreeBatches(cache, table, corpus, tokenizer, seed=3).batch(0, 0)
    by_first = np.argsort(-inputs["source"][:, 0])  # "dog" before what is unknown
    words, heads = (inputs[name][by_first] for name in ("source_words", "source_heads"))
    assert words.tolist() == [[1, 1, 2, 3, 4, 5, 5, 6, 0], [1, 2, 2, 0, 0, 0, 0, 0, 0]]
    assert heads.tolist() == [[2, 0, 5, 5, 2, 2, -1, -1, -1], [2, 0, *[-1] * 7]]


def test_trees_go_with_their_tokens(trees):
    corpus, cache = trees
    table = choose_buckets(cache, tokens=200, max_buckets=2)
    batches = TreeBatches(cache, table, corpus, ByteTokenizer(), seed=3)
    plain = PairBatches(cache, table, seed=3)
    for number in range(len(batches)):
        inputs, labels = batches.batch(epoch=1, number=number)
        words, heads = inputs.pop("source_words"), inputs.pop("source_heads")
        expected_inputs, expected_labels = plain.batch(epoch=1, number=number)
        np.testing.assert_array_equal(labels, expected_labels)
        for name, expected in expected_inputs.items():
            np.testing.assert_array_equal(inputs[name], expected)
        # A word's number is one more than the spaces up to its start; END is in no word.
        space = np.cumsum(inputs["source"] == ord(" ") + 4, axis=1) + 1
        np.testing.assert_array_equal(words, np.where(inputs["source"] > 3, space, 0))
        count = words.max(axis=1, keepdims=True)
        place = np.arange(heads.shape[1])
        np.testing.assert_array_equal(heads, np.where(place < count, place, -1))


def test_texts_that_are_cut_at_random(write, tmp_path):
    """The numbers follow the tokens that are there, not those of the cache."""
    corpus = write([TREE] * 8)
    settings = {"model": "bpe", "progress": lambda *_: None}
    learned = learn_tokenizer("sentencepiece", WORDS * 30, 290, **settings)
    cache = tokenize_corpus(corpus, learned, tmp_path / "caches", keep_text=True)
    table = choose_buckets(cache, max_buckets=1, room=4.0)
    samplers = {"source": lambda texts, seed: learned.sample(texts, seed, alpha=0.5)}
    batches = TreeBatches(cache, table, corpus, learned, seed=3, samplers=samplers)
    inputs, _ = batches.batch(0, 0)
    rows = {row.tobytes() for row in inputs["source"]}
    assert len(rows) > 1
    for ids, words in zip(inputs["source"], inputs["source_words"], strict=True):
        for number, word in enumerate(WORDS, start=1):
            assert learned.detokenize([ids[words == number]]).numpy() == [word.encode()]


def test_a_sentence_that_is_cut_keeps_what_is_seen(write, tmp_path):
    corpus = write([DependencyTree(("a",) * 9, (9, 0, *[2] * 7))])
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path / "caches")
    table = choose_buckets(cache, tokens=12, max_length=6, too_long="truncate")
    inputs, _ = TreeBatches(cache, table, corpus, ByteTokenizer(), seed=3).batch(0, 0)
    assert inputs["source_words"].tolist() == [[1, 2, 2, 3, 3, 4]]
    assert inputs["source_heads"].tolist() == [[9, 0, 2, 2, 2, 2]]


def test_a_model_is_fitted(trees):
    corpus, cache = trees
    table = choose_buckets(cache, max_buckets=1)
    batches = TreeBatches(cache, table, corpus, ByteTokenizer(), seed=3)
    model = Transformer.from_preset(
        "tiny",
        vocabulary_size=260,
        num_encoder_layers=1,
        num_decoder_layers=1,
        width=16,
        intermediate_dim=16,
        dropout=0.0,
        tree_positions="both",
    )
    table = model.encoder.blocks[0].self_attention.mechanism.key_distances
    learned = [model.encoder.structure.kernel, table]
    before = [weight.numpy() for weight in learned]
    model.compile("sgd", TokenCrossEntropy())
    history = model.fit(
        batches.dataset(), steps_per_epoch=len(batches), epochs=2, shuffle=False, verbose=0
    ).history
    assert history["loss"][1] < history["loss"][0]
    for weight, old in zip(learned, before, strict=True):
        assert not np.array_equal(weight, old)


def test_a_cache_of_something_else(trees, make_cache, pairs, write):
    corpus, cache = trees
    table = choose_buckets(cache, max_buckets=1)
    with pytest.raises(ValueError, match="The trees do not fit the tokens of `cache`"):
        TreeBatches(cache, table, corpus, WordPieceTokenizer(["dog"]), seed=3)
    other = make_cache(pairs)
    with pytest.raises(ValueError, match="Give the corpus and the tokenizer of the source"):
        TreeBatches(other, choose_buckets(other), corpus, ByteTokenizer(), seed=3)
    as_many = write([TREE] * len(cache))
    with pytest.raises(ValueError, match="The trees do not fit the tokens of `cache`"):
        TreeBatches(cache, table, as_many, ByteTokenizer(), seed=3)
