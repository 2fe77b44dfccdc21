"""Assignment of tokens to words, for every tokenizer."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.text import ByteTokenizer, Tokenizer, number_words
from tests.text.test_tokenizer_round_trip import HARD

# Possible words of a column of a file: no tabs, no line breaks, at least one character.
FORMS = st.one_of(
    st.text(min_size=1),
    st.sampled_from(HARD).filter(bool),
    st.text(alphabet=st.sampled_from("abcdeéüßДжλσςΣअआ日本語한국 \xa0,.()#▁\x10"), min_size=1),
).map(lambda form: form.replace("\t", " ").replace("\n", " "))
SENTENCES = st.lists(st.lists(FORMS, min_size=1, max_size=6), min_size=1, max_size=5)

examples = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
every_kind = pytest.mark.parametrize(
    "kind", ["bytes", "unigram", "bpe", "wordpiece", "wordpiece_lowercase"]
)


def texts_of(sentences):
    return [" ".join(words).encode() for words in sentences]


@functools.cache
def numbering_of(tokenizer):
    """Returns `number_words` of a tokenizer in a graph without static shapes."""
    matrix = tf.TensorSpec([None, None], tf.int32)
    return tf.function(
        lambda *given: number_words(tokenizer, *given), input_signature=[matrix, matrix]
    )


def check(tokenizer, ids, sentences):
    """Checks that the tokens of the first n words spell the first n words, for each n."""
    sizes = tokenizer.word_sizes(tf.ragged.constant(sentences, ragged_rank=1))
    numbers = numbering_of(tokenizer)(ids.to_tensor(), sizes.to_tensor()).numpy()
    starts = [" ".join(words[: n + 1]) for words in sentences for n in range(len(words))]
    spellings = [None] * len(sentences)
    if tokenizer.has_unknowns:
        spellings = tokenizer.spellings(texts_of(sentences)).to_list()
    kept = []
    for words, row, of_row, spelled in zip(
        sentences, ids.to_list(), numbers, spellings, strict=True
    ):
        of_tokens = of_row[: len(row)]
        assert np.all(np.diff(of_tokens) >= 0)
        assert np.all((of_tokens >= 1) & (of_tokens <= len(words)))
        assert not of_row[len(row) :].any()
        for n in range(1, len(words) + 1):
            kept.append((spelled or row)[: np.count_nonzero(of_tokens <= n)])
    if tokenizer.has_unknowns:
        found = [b"".join(spelled).removeprefix(b" ") for spelled in kept]
    else:
        found = tokenizer.detokenize(tf.ragged.constant(kept, tf.int32, 1)).numpy().tolist()
    assert found == tokenizer.normalize(starts).numpy().tolist()


@every_kind
@examples
@given(sentences=SENTENCES)
def test_number_words_of_any_text_gives_each_token_its_word(tokenizers, kind, sentences):
    tokenizer = tokenizers[kind]
    check(tokenizer, tokenizer.tokenize(texts_of(sentences)), sentences)


@every_kind
def test_number_words_of_real_names_gives_each_token_its_word(tokenizers, corpus, kind):
    tokenizer = tokenizers[kind]
    sentences = [line.split(" ") for line in corpus[::150]]
    check(tokenizer, tokenizer.tokenize(texts_of(sentences)), sentences)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_number_words_of_random_segmentation_gives_each_token_its_word(tokenizers, corpus, kind):
    tokenizer = tokenizers[kind]
    sentences = [line.split(" ") for line in corpus[::400]]
    for seed in range(3):
        check(tokenizer, tokenizer.sample(texts_of(sentences), seed), sentences)


def test_word_sizes_of_kind_without_words_is_refused():
    # Without a new kind, which would stay in the registry.
    with pytest.raises(UserError, match="cannot be used with trees"):
        Tokenizer.word_sizes(ByteTokenizer(), tf.ragged.constant([["a"]]))


def test_number_words_of_special_ids_is_zero():
    tokenizer = ByteTokenizer()
    ids = tf.constant([[2, *tokenizer.tokenize(["a b"])[0].numpy(), 3, 0]])
    sizes = tokenizer.word_sizes(tf.ragged.constant([["a", "b"]])).to_tensor()
    assert number_words(tokenizer, ids, sizes).numpy().tolist() == [[0, 1, 2, 2, 0, 0]]


def test_number_words_of_text_beyond_the_words_is_zero():
    tokenizer = ByteTokenizer()
    ids = tokenizer.tokenize(["ab c", "ab c"]).to_tensor()
    sizes = tokenizer.word_sizes(tf.ragged.constant([["ab"], []], tf.string, ragged_rank=1))
    assert number_words(tokenizer, ids, sizes.to_tensor()).numpy().tolist() == [
        [1, 1, 0, 0],
        [0, 0, 0, 0],
    ]
    nothing = tf.zeros([2, 0], tf.int32)
    assert not number_words(tokenizer, ids, nothing).numpy().any()
    assert number_words(tokenizer, nothing, nothing).shape == (2, 0)
