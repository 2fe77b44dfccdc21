"""A model that reads trees: CoNLL-U to strings, in memory and saved."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer
from keras_transformer.data import DependencyTree
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TextLimits, TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.inference import TextModel
from keras_transformer.text import ByteTokenizer, WordPieceTokenizer, learn_tokenizer
from tests.export.modules.helpers import assert_same, reloaded

WORDS = ("dogs", "sleep", "in", "the", "house", ".")
TREE = DependencyTree(WORDS, heads=(2, 0, 5, 5, 2, 2))
CHAIN = DependencyTree(WORDS, heads=(0, 1, 2, 3, 4, 5))
SHORT = DependencyTree(("dogs", "sleep"), heads=(2, 0))
SEARCH = SearchSettings(beams=2, max_length=8)


def tokenizer_of(kind):
    if kind == "bytes":
        return ByteTokenizer()
    if kind == "wordpiece":
        return WordPieceTokenizer(["dog", "##s", "sleep", "in", "the", "h", "##ouse", "."])
    return learn_tokenizer("sentencepiece", [TREE.text] * 9, 274, progress=lambda *_: None)


def trained_with(tokenizer, **settings):
    model = Transformer.from_size(
        "tiny",
        vocabulary_size=tokenizer.vocabulary_size,
        hidden_dim=16,
        intermediate_dim=16,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_length=64,
        **{"tree_positions": "both", **settings},
    )
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(variable + random.normal(0, 0.3, variable.shape))
    return TrainedModel(model, tokenizer, examples=[TREE.conllu, SHORT.conllu])


@pytest.fixture(scope="module")
def trained():
    return trained_with(tokenizer_of("bytes"))


@pytest.fixture(scope="module")
def functions(trained):
    return make_text_module(trained, SEARCH).functions


@pytest.mark.parametrize("kind", ["bytes", "sentencepiece", "wordpiece"])
def test_score_equals_the_score_of_training_batches(kind, tmp_path):
    """Strings get the scores that `TreeBatches` of files get."""
    from keras_transformer.data import ConlluCorpus, TreeBatches, choose_buckets, tokenize_corpus

    tokenizer, trees = tokenizer_of(kind), [TREE, CHAIN, SHORT]
    trained = trained_with(tokenizer)
    targets = ["in the house", "sleep", "dogs ."]
    (tmp_path / "s.conllu").write_text("".join(tree.conllu + "\n\n" for tree in trees))
    (tmp_path / "t.txt").write_text("".join(target + "\n" for target in targets))
    corpus = ConlluCorpus(tmp_path / "s.conllu", tmp_path / "t.txt")
    cache = tokenize_corpus(corpus, tokenizer, tmp_path / "cache")
    table = choose_buckets(cache, max_buckets=1)
    inputs, labels = TreeBatches(cache, table, corpus, tokenizer, seed=1).batch(0, 0)
    log_probabilities = tf.nn.log_softmax(trained.model(inputs)).numpy()
    of_tokens = np.take_along_axis(log_probabilities, labels[..., None], axis=2)[..., 0]
    expected = np.sum(of_tokens * (labels != 0), axis=1)

    functions = make_text_module(trained, SEARCH).functions
    scored = functions["score"](
        source=tf.constant([tree.conllu for tree in trees]), target=tf.constant(targets)
    )["log_probability"].numpy()
    np.testing.assert_allclose(np.sort(scored), np.sort(expected), rtol=1e-4)
    assert len({round(float(score), 3) for score in scored}) == 3


def test_every_signature_depends_on_the_tree(functions):
    """Two different trees and no tree for the same text."""
    sources = tf.constant([TREE.conllu, CHAIN.conllu, TREE.text])
    targets = tf.constant(["ab"] * 3)

    def differ(values):
        return all(np.abs(values[a] - values[b]).max() > 1e-3 for a, b in [(0, 1), (0, 2), (1, 2)])

    assert differ(functions["serving_default"](text=sources)["score"].numpy())
    assert differ(functions["n_best"](text=sources)["score"].numpy()[:, :1])
    sampling = {"temperature": tf.constant(0.0), "seed": tf.constant(1)}
    assert differ(functions["sample"](text=sources, **sampling)["score"].numpy())
    assert differ(functions["score"](source=sources, target=targets)["log_probability"].numpy())
    assert differ(functions["encode"](text=sources)["embedding"].numpy())
    attention = functions["attention"](source=sources, target=targets)
    assert differ(attention["weights"].numpy())
    for tokens in attention["source_tokens"].numpy():
        assert b"".join(tokens).startswith(b"dogs<0x20>sleep<0x20>in")


CYCLE = TREE.conllu.replace("\t5\t", "\t4\t")  # "the" depends on itself
ODD = [
    "", " ", "plain", "with\ta tab", CYCLE, TREE.conllu.replace("\t0\t", "\t_\t"),
    TREE.conllu.replace("\t0\t", "\t999999\t"), TREE.conllu[:57], "#\n" * 50, "\n".join("1\t" * 9),
    "\n\n".join([TREE.conllu] * 3), TREE.conllu * 400, "1\ta" + "\t0" * 8 + "\n" * 1000,
]  # fmt: skip


def test_odd_strings_are_answered_alone_and_in_a_batch(functions):
    """The answer does not depend on the other rows."""
    texts = tf.constant([*ODD, TREE.conllu])
    found = functions["serving_default"](text=texts)
    assert np.all(np.isfinite(found["score"]))
    assert found["text"].numpy()[:2].tolist() == [b"", b""]
    for row in (2, 4, 6, 10, len(ODD)):
        alone = functions["serving_default"](text=texts[row : row + 1])
        assert alone["text"].numpy()[0] == found["text"].numpy()[row]
        np.testing.assert_allclose(alone["score"][0], found["score"][row], rtol=1e-4)
    scored = functions["score"](source=texts, target=tf.fill(tf.shape(texts), "ab"))
    assert np.all(np.isfinite(scored["log_probability"]))
    assert functions["encode"](text=texts[:0])["embedding"].shape == (0, 16)


def test_word_without_a_valid_head_is_in_no_tree(functions):
    """The result equals that of plain text."""
    rootless = TREE.conllu.replace("\t0\t", "\t_\t")
    first, second = functions["encode"](text=tf.constant([rootless, TREE.text]))["embedding"]
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_long_sentence_is_cut_to_the_limit(trained):
    functions = make_text_module(trained, SEARCH, TextLimits(tokens=12)).functions
    seen = DependencyTree(WORDS[:3], heads=(2, 0, 2))
    long = DependencyTree(WORDS[:3] + ("house",) * 50, heads=(2, 0, *[2] * 51))
    first, second = functions["encode"](text=tf.constant([seen.conllu, long.conllu]))["embedding"]
    np.testing.assert_allclose(first, second, atol=1e-5)  # 11 bytes and END of each


def test_words_without_tokens_count_for_the_limits():
    """Otherwise the trees of a sub-batch could be larger than its limit of tokens."""
    module = make_text_module(trained_with(tokenizer_of("wordpiece")), SEARCH)
    empty = DependencyTree(("\xa0",) * 40, tuple(range(40)))
    columns = module.read(tf.constant([empty.conllu, SHORT.conllu]))
    assert columns["source"].row_lengths().numpy().tolist() == [1, 4]
    assert module.lengths(columns).numpy().tolist() == [40, 4]


def test_tree_module_compiled_by_xla_gives_the_same_answers(trained, functions):
    compiled = make_text_module(trained, SEARCH, xla=True).functions
    texts = tf.constant([TREE.conllu, SHORT.conllu, "plain"])
    plain, fast = (f["serving_default"](text=texts) for f in (functions, compiled))
    assert plain["text"].numpy().tolist() == fast["text"].numpy().tolist()
    np.testing.assert_allclose(plain["score"], fast["score"], rtol=1e-3, atol=1e-4)


def test_saved_tree_module_gives_the_answers_of_the_model(trained, functions, tmp_path):
    """A whole export of such a model is tested with its training, tests/trainer/test_trees.py."""
    assert TextModel.of(trained).reads_trees
    module = make_text_module(trained, SEARCH, stored_dtype="float32")
    saved = reloaded(module, tmp_path, "serving_default", "encode")
    texts = tf.constant([TREE.conllu, CHAIN.conllu, "plain"])
    for name, function in saved.signatures.items():
        assert_same(function(text=texts), functions[name](text=texts))
