"""Depths that are carried along with batches."""

import numpy as np
import pytest

from keras_transformer.data import (
    ConlluCorpus,
    DependencyTree,
    PairBatches,
    TreeBatches,
    choose_buckets,
    piece_depths,
    tokenise_corpus,
)
from keras_transformer.losses import TokenCrossEntropy
from keras_transformer.models import Transformer
from keras_transformer.text import ByteTokenizer, Tokenizer, WordPieceTokenizer, learn_tokenizer

WORDS = ["dogs", "sleep", "in", "the", "house", "."]
TREE = DependencyTree(tuple(WORDS), heads=(2, 0, 5, 5, 2, 2))


def test_every_piece_takes_its_words_depth():
    tokenizer = WordPieceTokenizer(["dog", "##s", "sleep", "in", "the", "h", "##ouse", "."])
    (depths,) = piece_depths([TREE], tokenizer)
    assert depths.tolist() == [2, 2, 1, 3, 3, 2, 2, 2]
    (unknown,) = piece_depths([DependencyTree(("?!", "dogs"), (2, 0))], tokenizer)
    assert unknown.tolist() == [2, 1, 1]
    learned = learn_tokenizer("sentencepiece", [TREE.text] * 9, 274, progress=lambda *_: None)
    (depths,) = piece_depths([TREE], learned)
    spelt = learned.spellings([TREE.text])[0].numpy()
    words = np.cumsum([piece.startswith(b" ") for piece in spelt]) - 1
    assert depths.tolist() == [TREE.depths()[word] for word in words]


def test_a_tokenizer_that_cuts_across_words():
    class Backwards(Tokenizer, registered_name="backwards"):
        def _split(self, strings):
            return ByteTokenizer().tokenize(strings)[:, ::-1]

    with pytest.raises(ValueError, match="'backwards' cuts 'ab cd' across the end of 'ab'"):
        piece_depths([DependencyTree(("ab", "cd"), (0, 1))], Backwards([]))


@pytest.fixture
def trees(tmp_path):
    """A corpus of sentences whose words hang in a chain, and its cache."""
    sentences = [WORDS[: 1 + n % 6] for n in range(20)]
    source, target = tmp_path / "de.conllu", tmp_path / "en.txt"
    source.write_text(
        "\n".join(
            "".join(f"{n + 1}\t{word}\t_\t_\t_\t_\t{n}\t_\t_\t_\n" for n, word in enumerate(words))
            for words in sentences
        )
    )
    target.write_text("".join(" ".join(words[::-1]) + "\n" for words in sentences))
    corpus = ConlluCorpus(source, target)
    return corpus, tokenise_corpus(corpus, ByteTokenizer(), tmp_path / "caches")


def test_depths_go_with_their_tokens(trees):
    corpus, cache = trees
    table = choose_buckets(cache, tokens=200, max_buckets=2)
    batches = TreeBatches(cache, table, corpus, ByteTokenizer(), seed=3)
    plain = PairBatches(cache, table, seed=3)
    for number in range(len(batches)):
        inputs, labels = batches.batch(epoch=1, number=number)
        depths = inputs.pop("source_depths")
        expected_inputs, expected_labels = plain.batch(epoch=1, number=number)
        np.testing.assert_array_equal(labels, expected_labels)
        for name, expected in expected_inputs.items():
            np.testing.assert_array_equal(inputs[name], expected)
        # In a chain, a word's depth is one more than the spaces up to its start; END is in no tree.
        space = np.cumsum(inputs["source"] == ord(" ") + 4, axis=1) + 1
        np.testing.assert_array_equal(depths, np.where(inputs["source"] > 3, space, 0))


def test_a_model_is_fitted(trees):
    corpus, cache = trees
    table = choose_buckets(cache, max_buckets=1)
    batches = TreeBatches(cache, table, corpus, ByteTokenizer(), seed=3)
    model = Transformer.from_preset(
        "tiny",
        vocabulary_size=260,
        encoder_layers=1,
        decoder_layers=1,
        width=16,
        feed_forward_width=16,
        dropout=0.0,
        reads_source_depths=True,
    )
    before = model.encoder.structure.kernel.numpy()
    model.compile("sgd", TokenCrossEntropy())
    history = model.fit(
        batches.dataset(), steps_per_epoch=len(batches), epochs=2, shuffle=False, verbose=0
    ).history
    assert history["loss"][1] < history["loss"][0]
    assert not np.array_equal(model.encoder.structure.kernel, before)


def test_a_cache_of_something_else(trees, make_cache, pairs):
    corpus, cache = trees
    table = choose_buckets(cache, max_buckets=1)
    with pytest.raises(ValueError, match="The trees do not fit the tokens of `cache`"):
        TreeBatches(cache, table, corpus, WordPieceTokenizer(["dog"]), seed=3)
    other = make_cache(pairs)
    with pytest.raises(ValueError, match="Give the corpus and the tokenizer of the source"):
        TreeBatches(other, choose_buckets(other), corpus, ByteTokenizer(), seed=3)
