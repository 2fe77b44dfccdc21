"""Batches of pairs, documents, labeled texts, and pairs with parsed sources."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import (
    Bucket,
    BucketTable,
    ConlluCorpus,
    DependencyTree,
    DocumentBatches,
    LabeledBatches,
    MemoryCorpus,
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


def ids(text):
    return [byte + 4 for byte in text.encode()]


def rows_of(batches, epoch=0):
    """Returns the rows of an epoch that are not padding, as (source, target, labels) without it."""
    rows = []
    for number in range(len(batches)):
        inputs, labels = batches.batch(epoch, number)
        for arrays in zip(inputs["source"], inputs["target"], labels, strict=True):
            row = tuple(np.trim_zeros(array, "b").tolist() for array in arrays)
            if any(row):
                rows.append(row)
    return rows


def row_of(source, target):
    return [*ids(source), 3], [2, *ids(target)], [*ids(target), 3]


texts = st.text("abc", min_size=1, max_size=12)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=60),
    st.integers(13, 100),
    st.integers(1, 6),
)
def test_every_pair_occurs_once_per_epoch(make_cache, pairs, tokens, max_buckets):
    cache = make_cache(pairs)
    table = choose_buckets(cache, tokens=tokens, max_buckets=max_buckets)
    batches = PairBatches(cache, table, seed=3)
    for epoch in (0, 1):
        found = collections.Counter(map(str, rows_of(batches, epoch)))
        assert found == collections.Counter(str(row_of(*pair)) for pair in pairs)


def test_every_batch_has_shape_of_its_bucket(make_cache, pairs):
    cache = make_cache(pairs)
    table = choose_buckets(cache, tokens=600, max_buckets=6)
    batches = PairBatches(cache, table, seed=3)
    for number in range(len(batches)):
        index, examples = batches.plan(0)[number]
        inputs, labels = batches.batch(0, number)
        bucket = table[index]
        assert inputs["source"].shape == (bucket.rows, bucket.lengths[0])
        assert inputs["target"].shape == labels.shape == (bucket.rows, bucket.lengths[1])
        assert np.count_nonzero(labels.any(axis=1)) == len(examples)


def test_left_over_examples_move_up_where_that_saves_slots(make_cache):
    # Of each length one more than fills its batches.
    pairs = [("a" * n, "b" * n) for n in (3, 4, 5) for _ in range(17)]
    table = BucketTable(tuple(Bucket(8, (length, length)) for length in (4, 5, 6)))
    report = PairBatches(make_cache(pairs), table, seed=1).report()
    assert [part.batches for part in report.buckets] == [2, 2, 3]
    assert [part.examples for part in report.buckets] == [16, 16, 19]
    # Moving to a row of fifty would cost more than a batch that is not full.
    table = BucketTable((*table.buckets, Bucket(2, (50, 50))))
    assert [
        part.batches for part in PairBatches(make_cache(pairs), table, seed=1).report().buckets
    ] == [2, 2, 3, 0]
    pairs.append(("a" * 49, "b"))
    report = PairBatches(make_cache(pairs), table, seed=1).report()
    assert [part.batches for part in report.buckets] == [2, 2, 3, 1]


def test_whole_corpus_is_shuffled(make_cache):
    pairs = [(f"{number:04}", f"{number:04}") for number in range(2000)]
    cache = make_cache(pairs)
    batches = PairBatches(cache, choose_buckets(cache, tokens=100), seed=3)
    first = [examples for number in range(20) for examples in batches.plan(0)[number][1]]
    # The first 320 examples come from everywhere: 80 from each quarter, and 40 are five standard
    # deviations.
    assert len(first) == 320
    quarters = np.bincount(np.array(first) // 500, minlength=4)
    assert np.abs(quarters - 80).max() < 40


def test_too_long_pairs_are_skipped_and_counted(make_cache):
    pairs = [("a" * n, "b" * (n // 2 + 1)) for n in range(1, 41)] + [("x", "y" * 10**6)]
    cache = make_cache(pairs)
    batches = PairBatches(cache, choose_buckets(cache, tokens=100, max_length=31), seed=1)
    report = batches.report()
    assert (report.examples, report.skipped, report.truncated) == (30, 11, 0)
    assert sorted(rows_of(batches)) == sorted(row_of(*pair) for pair in pairs[:30])
    assert "30 examples" in str(report)
    assert "11 skipped" in str(report)


def test_too_long_pairs_are_truncated_and_counted(make_cache):
    pairs = [("a" * 3, "b" * 3), ("a" * 4, "b" * 10**6), ("c" * 9, "d" * 4), ("c" * 5, "d" * 6)]
    cache = make_cache(pairs)
    table = choose_buckets(cache, max_length=6, too_long="truncate")
    report = PairBatches(cache, table, seed=1).report()
    assert (report.examples, report.skipped, report.truncated) == (4, 0, 3)
    assert sorted(rows_of(PairBatches(cache, table, seed=1))) == sorted(
        [
            ([*ids("aaa"), 3], [2, *ids("bbb")], [*ids("bbb"), 3]),
            # A truncated sequence has no END.
            ([*ids("aaaa"), 3], [2, *ids("bbbbb")], ids("bbbbbb")),
            (ids("cccccc"), [2, *ids("dddd")], [*ids("dddd"), 3]),
            ([*ids("ccccc"), 3], [2, *ids("ddddd")], ids("dddddd")),
        ]
    )


def test_table_without_examples_is_refused(make_cache, pairs):
    table = BucketTable((Bucket(8, (2, 2)),))
    with pytest.raises(UserError, match=r"All 20 examples .* \(2, 2\)"):
        PairBatches(make_cache([("long", "longer")] * 20), table, seed=1)


def test_table_of_other_columns_is_refused(make_cache, pairs):
    table = BucketTable((Bucket(8, (2,)),))
    with pytest.raises(ValueError, match=r"for each of .*target.*; got \(2,\)"):
        PairBatches(make_cache(pairs), table, seed=1)


def test_single_pair_is_one_batch(make_cache):
    cache = make_cache([("eins", "one")])
    batches = PairBatches(cache, choose_buckets(cache, tokens=10**6), seed=1)
    assert len(batches) == 1
    assert rows_of(batches) == [row_of("eins", "one")]


def test_few_pairs_in_shapes_of_many_are_one_batch(make_cache, pairs):
    """A validation set that is smaller than a batch, in the shapes of the training set."""
    table = choose_buckets(make_cache(pairs), tokens=4096, max_buckets=1)
    validation = make_cache([("eins", "one"), ("zwei", "two")])
    batches = PairBatches(validation, table, seed=1)
    assert len(batches) == 1
    assert batches.batch(0, 0)[1].shape == (table[0].rows, table[0].lengths[1])
    assert sorted(rows_of(batches)) == sorted([row_of("eins", "one"), row_of("zwei", "two")])


class TestSamplers:
    """Texts that are segmented anew for every batch."""

    @staticmethod
    def doubled(strings, seed):
        """Returns twice as many ids as in the cache; the first half depends on the seed."""
        ids = ByteTokenizer().tokenize(strings)
        return tf.concat([ids * 0 + 4 + seed % 256, ids], axis=1)

    def test_samples_replace_rows_that_fit(self, make_cache):
        cache = make_cache([("aaa", "t"), ("cccc", "t"), ("b", "t")], keep_text=True)
        table = BucketTable((Bucket(3, (8, 2)),))
        batches = PairBatches(cache, table, seed=1, samplers={"source": self.doubled})
        sources = sorted((source for source, _, _ in rows_of(batches)), key=len)
        mark = sources[0][0]
        assert sources == [
            [mark, *ids("b"), 3],
            [*ids("cccc"), 3],  # twice four and END do not fit: the row keeps its own ids
            [mark, mark, mark, *ids("aaa"), 3],
        ]

    def test_samples_differ_between_batches_and_are_pure(self, make_cache, pairs):
        cache = make_cache(pairs, keep_text=True)
        table = choose_buckets(cache, tokens=400, max_buckets=3, headroom=2)
        first, second = (
            PairBatches(cache, table, seed=1, samplers={"source": self.doubled}) for _ in range(2)
        )
        marks = set()
        for epoch, number in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            inputs, _ = first.batch(epoch, number)
            again, _ = second.batch(epoch, number)
            np.testing.assert_array_equal(inputs["source"], again["source"])
            marks.add(int(inputs["source"][0, 0]))
        assert len(marks) > 1
        for number, (inputs, _) in enumerate(first.dataset(epochs=1)):
            again, _ = second.batch(0, number)
            np.testing.assert_array_equal(inputs["source"], again["source"])
        assert first.fingerprint() != PairBatches(cache, table, seed=1).fingerprint()

    def test_samples_of_real_tokenizer_have_the_same_texts(self, make_cache, tmp_path):
        lines = ["ein Haus am See", "ein Boot am Haus", "am See ein Boot"] * 10
        tokenizer = learn_tokenizer("sentencepiece", lines, 290, model="bpe", progress=None)
        corpus = MemoryCorpus([(line, line) for line in lines])
        cache = tokenize_corpus(corpus, tokenizer, tmp_path, keep_text=True)
        table = choose_buckets(cache, headroom=3)
        samplers = dict.fromkeys(("source", "target"), tokenizer.sample)
        batches = PairBatches(cache, table, seed=1, samplers=samplers)
        found = [row for epoch in range(3) for row in rows_of(batches, epoch)]
        assert len({str(source) for source, _, _ in found}) > 3  # more cuts than texts
        for column in (0, 2):
            texts = tokenizer.detokenize(tf.ragged.constant([row[column] for row in found]))
            assert collections.Counter(text.decode() for text in texts.numpy()) == dict.fromkeys(
                lines, 30
            )

    def test_samplers_without_text_are_refused(self, make_cache, pairs):
        cache = make_cache(pairs)
        with pytest.raises(ValueError, match=r"without its text.*keep_text=True"):
            PairBatches(cache, choose_buckets(cache), seed=1, samplers={"source": self.doubled})

    def test_samplers_of_unknown_column_are_refused(self, make_cache, pairs):
        cache = make_cache(pairs, keep_text=True)
        with pytest.raises(ValueError, match="`samplers` must be one of 'source', 'target'"):
            PairBatches(cache, choose_buckets(cache), seed=1, samplers={"text": self.doubled})


# Documents and labeled texts.


def test_row_of_document_batches_is_one_document(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = DocumentBatches(cache, choose_buckets(cache, tokens=700, max_buckets=4), seed=1)
    found = []
    for number in range(len(batches)):
        inputs, labels = batches.batch(0, number)
        assert list(inputs) == ["target"]
        for target, label in zip(inputs["target"], labels, strict=True):
            if label.any():
                target, label = np.trim_zeros(target, "b"), np.trim_zeros(label, "b")
                assert target[0] == 2
                assert label[-1] == 3
                assert target[1:].tolist() == label[:-1].tolist()
                found.append(bytes(label[:-1].astype(np.uint8) - 4).decode())
    assert sorted(found) == sorted(text for (text,) in documents)


def test_row_of_labeled_batches_is_text_with_class(make_cache, pairs):
    classes = ["bad", "fair", "good"]
    examples = [(text, classes[len(text) % 3]) for text, _ in pairs]
    cache = make_cache(examples, columns=("text", "label"))
    batches = LabeledBatches(cache, choose_buckets(cache, tokens=700, max_buckets=4), seed=1)
    found = []
    for number in range(len(batches)):
        inputs, labels, weights = batches.batch(0, number)
        assert list(inputs) == ["source"]
        for source, label, weight in zip(inputs["source"], labels, weights, strict=True):
            assert weight == source.any()
            if weight:
                ids = np.trim_zeros(source, "b")
                assert ids[-1] == 3
                found.append((bytes(ids[:-1].astype(np.uint8) - 4).decode(), classes[label]))
    assert sorted(found) == sorted(examples)


# Trees.


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes trees and targets, and makes the corpus."""

    def make(trees):
        source, target = tmp_path / "de.conllu", tmp_path / "en.txt"
        source.write_text("".join(tree.conllu + "\n\n" for tree in trees), encoding="utf-8")
        target.write_text("".join(" ".join(tree.words[::-1]) + "\n" for tree in trees))
        return ConlluCorpus(source, target)

    return make


@pytest.fixture
def trees(write, tmp_path):
    """Returns a corpus of sentences whose words form a chain, and its cache."""
    sentences = [tuple(WORDS[: 1 + n % 6]) for n in range(20)]
    corpus = write([DependencyTree(words, tuple(range(len(words)))) for words in sentences])
    return corpus, tokenize_corpus(corpus, ByteTokenizer(), tmp_path / "caches")


def test_tree_batches_number_pieces_by_word(write, tmp_path):
    tokenizer = WordPieceTokenizer(["dog", "##s", "sleep", "in", "the", "h", "##ouse", "."])
    corpus = write([TREE, DependencyTree(("?!", "dogs"), (2, 0))])
    cache = tokenize_corpus(corpus, tokenizer, tmp_path / "caches")
    table = choose_buckets(cache, max_buckets=1)
    inputs, _ = TreeBatches(cache, table, corpus, tokenizer, seed=3).batch(0, 0)
    by_first = np.argsort(-inputs["source"][:, 0])  # "dog" before what is unknown
    words, heads = (inputs[name][by_first] for name in ("source_words", "source_heads"))
    assert words.tolist() == [[1, 1, 2, 3, 4, 5, 5, 6, 0], [1, 2, 2, 0, 0, 0, 0, 0, 0]]
    assert heads.tolist() == [[2, 0, 5, 5, 2, 2, -1, -1, -1], [2, 0, *[-1] * 7]]


def test_tree_batches_add_trees_to_pair_batches(trees):
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
        # The number of a word is one more than the spaces before it; END is in no word.
        space = np.cumsum(inputs["source"] == ord(" ") + 4, axis=1) + 1
        np.testing.assert_array_equal(words, np.where(inputs["source"] > 3, space, 0))
        count = words.max(axis=1, keepdims=True)
        place = np.arange(heads.shape[1])
        np.testing.assert_array_equal(heads, np.where(place < count, place, -1))


def test_tree_batches_number_sampled_tokens(write, tmp_path):
    """The word numbers are those of the sampled tokens, not of the cache."""
    corpus = write([TREE] * 8)
    settings = {"model": "bpe", "progress": lambda *_: None}
    learned = learn_tokenizer("sentencepiece", WORDS * 30, 290, **settings)
    cache = tokenize_corpus(corpus, learned, tmp_path / "caches", keep_text=True)
    table = choose_buckets(cache, max_buckets=1, headroom=4.0)
    samplers = {"source": lambda texts, seed: learned.sample(texts, seed, alpha=0.5)}
    batches = TreeBatches(cache, table, corpus, learned, seed=3, samplers=samplers)
    inputs, _ = batches.batch(0, 0)
    rows = {row.tobytes() for row in inputs["source"]}
    assert len(rows) > 1
    for ids, words in zip(inputs["source"], inputs["source_words"], strict=True):
        for number, word in enumerate(WORDS, start=1):
            assert learned.detokenize([ids[words == number]]).numpy() == [word.encode()]


def test_tree_of_truncated_sentence_keeps_its_words(write, tmp_path):
    corpus = write([DependencyTree(("a",) * 9, (9, 0, *[2] * 7))])
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path / "caches")
    table = choose_buckets(cache, tokens=12, max_length=6, too_long="truncate")
    inputs, _ = TreeBatches(cache, table, corpus, ByteTokenizer(), seed=3).batch(0, 0)
    assert inputs["source_words"].tolist() == [[1, 2, 2, 3, 3, 4]]
    assert inputs["source_heads"].tolist() == [[9, 0, 2, 2, 2, 2]]


def test_fit_with_tree_batches_trains_tree_weights(trees):
    corpus, cache = trees
    table = choose_buckets(cache, max_buckets=1)
    batches = TreeBatches(cache, table, corpus, ByteTokenizer(), seed=3)
    model = Transformer.from_size(
        "tiny",
        vocabulary_size=260,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=16,
        intermediate_dim=16,
        dropout=0.0,
        tree_positions="both",
    )
    table = model.encoder.blocks[0].self_attention.mechanism.key_distances
    learned = [model.encoder.depth_encoding.kernel, table]
    before = [weight.numpy() for weight in learned]
    model.compile("sgd", TokenCrossEntropy())
    history = model.fit(
        batches.dataset(), steps_per_epoch=len(batches), epochs=2, shuffle=False, verbose=0
    ).history
    assert history["loss"][1] < history["loss"][0]
    for weight, old in zip(learned, before, strict=True):
        assert not np.array_equal(weight, old)


def test_trees_of_another_cache_are_refused(trees, make_cache, pairs, write):
    corpus, cache = trees
    table = choose_buckets(cache, max_buckets=1)
    with pytest.raises(ValueError, match="trees do not match"):
        TreeBatches(cache, table, corpus, WordPieceTokenizer(["dog"]), seed=3)
    other = make_cache(pairs)
    with pytest.raises(ValueError, match="trees do not match"):
        TreeBatches(other, choose_buckets(other), corpus, ByteTokenizer(), seed=3)
    as_many = write([TREE] * len(cache))
    with pytest.raises(ValueError, match="trees do not match"):
        TreeBatches(cache, table, as_many, ByteTokenizer(), seed=3)
