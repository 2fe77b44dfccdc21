"""What every tokenizer promises, whatever its kind."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.text import (
    END_ID,
    PADDING_ID,
    START_ID,
    UNKNOWN_ID,
    Tokenizer,
    load_tokenizer,
    registered_tokenizers,
    tokenizer_class,
)
from keras_transformer.text import tokenizer as tokenizer_module

VARIANTS = ["bytes", "unigram", "bpe", "wordpiece", "wordpiece_lowercase"]
TEXTS = [
    *("Deutschland (Deutsch)", "", "  two  spaces ", "日本 \u00a0 \t 한국", "a\nb", "▁x"),
    *("👩‍👩‍👧‍👦 שלום", "हिन्दी e\u0301", "\x01\x7f"),
]
INVALID = [
    *(b"\xff\xfe", b"a\xe2\x96 b", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80 ok", b"\x80"),
]


@pytest.fixture(params=VARIANTS)
def tokenizer(request, tokenizers):
    return tokenizers[request.param]


def test_every_registered_kind_is_tested_here(tokenizers):
    kinds = {tokenizers[variant].registered_name for variant in VARIANTS}
    assert kinds == set(registered_tokenizers())


def test_the_special_ids_are_what_everybody_was_told(tokenizer):
    assert (PADDING_ID, UNKNOWN_ID, START_ID, END_ID) == (0, 1, 2, 3)
    assert tokenizer.vocabulary()[:4] == ["<padding>", "<unknown>", "<start>", "<end>"]


def test_ids_are_ragged_int32(tokenizer):
    ids = tokenizer.tokenize(TEXTS)
    assert isinstance(ids, tf.RaggedTensor)
    assert ids.dtype == tf.int32
    assert ids.shape.as_list() == [len(TEXTS), None]
    assert ids[1].shape == [0]


def test_ids_of_text_are_no_control_ids(tokenizer, corpus):
    ids = tokenizer.tokenize([*TEXTS, *corpus]).values.numpy()
    assert not np.isin(ids, [PADDING_ID, START_ID, END_ID]).any()
    assert ids.max() < tokenizer.vocabulary_size
    if tokenizer.registered_name != "wordpiece":
        assert UNKNOWN_ID not in ids


def test_text_that_looks_special_stays_text(tokenizer, corpus):
    names = tokenizer.vocabulary()[:4]
    looks = ["<s>", "</s>", "<pad>", "<unk>", "[PAD]", "[UNK]", "[START]", "[END]", "[CLS]"]
    looks += ["<padding >", "<unknown >", "<start >", "<end >", "special 0", "special 3", *names]
    texts = [f"{look} Deutsch {look}" for look in looks] + looks
    ids = tokenizer.tokenize(texts).values.numpy()
    assert not np.isin(ids, [PADDING_ID, START_ID, END_ID]).any()
    # Every character of these is in the corpus or spelt in bytes, so nothing is lost either,
    # but for WordPiece's unknown words.
    if tokenizer.registered_name != "wordpiece":
        back = tokenizer.detokenize(tokenizer.tokenize(texts)).numpy().tolist()
        assert back == [text.encode() for text in texts]


def test_no_strings_at_all(tokenizer):
    ids = tokenizer.tokenize([])
    assert ids.shape.as_list() == [0, None]
    assert tokenizer.detokenize(ids).shape == [0]
    assert tokenizer.detokenize(tf.zeros([0, 5], tf.int32)).shape == [0]
    assert tokenizer.tokens(ids).shape.as_list() == [0, None]
    assert tokenizer.normalize(tf.constant([], tf.string)).shape == [0]


def test_rows_without_ids_are_empty_strings(tokenizer):
    assert tokenizer.detokenize(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]
    assert tokenizer.detokenize([[]]).numpy().tolist() == [b""]


def test_invalid_utf8_never_fails(tokenizer):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def there_and_back(strings):
        return tokenizer.detokenize(tokenizer.tokenize(strings))

    back = there_and_back(tf.constant(INVALID)).numpy().tolist()
    assert back == tokenizer.detokenize(tokenizer.tokenize(INVALID)).numpy().tolist()
    if tokenizer.registered_name == "bytes":
        assert back == INVALID
    else:
        assert back[4].endswith(b"ok")
        assert all(string.decode("utf-8") is not None for string in back)


def test_padded_and_ragged_ids_read_alike(tokenizer, corpus):
    ids = tokenizer.tokenize(corpus[:50])
    padded = ids.to_tensor(default_value=PADDING_ID)
    expected = tokenizer.detokenize(ids).numpy().tolist()
    assert tokenizer.detokenize(padded).numpy().tolist() == expected
    assert tokenizer.detokenize(tf.cast(padded, tf.int64)).numpy().tolist() == expected


def test_special_and_impossible_ids_vanish(tokenizer):
    ids = tokenizer.tokenize(["Deutsch"]).to_list()[0]
    noisy = [START_ID, UNKNOWN_ID]
    for number in ids:
        noisy += [number, PADDING_ID, tokenizer.vocabulary_size, -1, 2**31 - 1]
    expected = tokenizer.detokenize([ids]).numpy().tolist()
    assert tokenizer.detokenize([[*noisy, END_ID, PADDING_ID]]).numpy().tolist() == expected
    # Not even by wrapping around at 32 bits.
    wrapped = tf.constant([[number + 2**32 for number in ids]], tf.int64)
    assert tokenizer.detokenize(wrapped).numpy().tolist() == [b""]


def test_one_unsigned_byte_each_is_enough_of_a_dtype(tokenizer):
    ids = tf.constant([[START_ID, 70, 109]], tf.uint8)
    expected = tokenizer.detokenize([[70, 109]]).numpy().tolist()
    assert tokenizer.detokenize(ids).numpy().tolist() == expected


def test_tokens_have_the_shape_of_the_ids(tokenizer):
    ids = tokenizer.tokenize(TEXTS)
    tokens = tokenizer.tokens(ids)
    assert tokens.row_lengths().numpy().tolist() == ids.row_lengths().numpy().tolist()
    vocabulary = tokenizer.vocabulary()
    assert tokens.to_list() == [[vocabulary[i].encode() for i in row] for row in ids.to_list()]
    impossible = tokenizer.tokens([[START_ID, -1], [tokenizer.vocabulary_size, END_ID]]).numpy()
    assert impossible.tolist() == [[b"<start>", b"<unknown>"], [b"<unknown>", b"<end>"]]


def test_the_vocabulary_lists_every_id(tokenizer):
    vocabulary = tokenizer.vocabulary()
    assert len(vocabulary) == tokenizer.vocabulary_size
    assert all(isinstance(name, str) for name in vocabulary)
    assert len(set(vocabulary)) == len(vocabulary)


def test_graph_and_pipeline_give_the_ids_of_eager_calls(tokenizer, corpus):
    strings = [*TEXTS, *corpus[::100]]
    expected = tokenizer.tokenize(strings).to_list()
    assert tf.function(tokenizer.tokenize)(tf.constant(strings)).to_list() == expected

    unknown_shape = tf.function(
        tokenizer.tokenize, input_signature=[tf.TensorSpec(None, tf.string)]
    )
    assert unknown_shape(tf.constant(strings)).to_list() == expected

    dataset = tf.data.Dataset.from_tensor_slices(strings).batch(7)
    batches = dataset.map(tokenizer.tokenize, num_parallel_calls=2)
    assert [row for batch in batches for row in batch.to_list()] == expected


def test_a_row_does_not_depend_on_its_neighbors(tokenizer, corpus):
    strings = [*TEXTS, *corpus[::1500]]
    together = tokenizer.tokenize(strings).to_list()
    assert [tokenizer.tokenize([string]).to_list()[0] for string in strings] == together


def test_setting_the_seed_of_tensorflow_does_no_harm(tokenizer):
    # It throws away the kernels of eager ops, and tensorflow-text keeps models in kernels.
    expected = tokenizer.tokenize(TEXTS).to_list()
    tf.random.set_seed(1)
    assert tokenizer.tokenize(TEXTS).to_list() == expected


def test_saved_and_loaded_it_is_the_same(tokenizer, tmp_path, corpus):
    tokenizer.save(tmp_path / "tokenizer")
    loaded = load_tokenizer(tmp_path / "tokenizer")
    assert type(loaded) is type(tokenizer)
    assert loaded.hash == tokenizer.hash
    assert loaded.vocabulary() == tokenizer.vocabulary()
    strings = [*TEXTS, *corpus[::100]]
    assert loaded.tokenize(strings).to_list() == tokenizer.tokenize(strings).to_list()


def test_hashes_are_all_different(tokenizers):
    assert len({tokenizer.hash for tokenizer in tokenizers.values()}) == len(tokenizers)


def test_a_model_with_another_number_of_ids_is_refused(tokenizer):
    tokenizer.require_vocabulary_size(tokenizer.vocabulary_size, "The model's embedding")
    with pytest.raises(
        UserError, match=r"^The model's embedding has 77 ids, but the .* has \d+\. Use"
    ):
        tokenizer.require_vocabulary_size(77, "The model's embedding")


def test_shapes_that_make_no_sense_are_refused(tokenizer):
    with pytest.raises(ValueError, match=r"`strings` must have shape \[B\]; got \(\)"):
        tokenizer.tokenize("one string")
    with pytest.raises(ValueError, match=r"`strings` must have shape \[B\]; got \(1, 2\)"):
        tokenizer.tokenize([["a", "b"]])
    with pytest.raises(ValueError, match=r"`ids` must have shape \[B, T\]; got \(2,\)"):
        tokenizer.detokenize([5, 6])


@pytest.mark.parametrize("variant", ["bytes", "wordpiece"])
def test_who_cannot_sample_says_so(tokenizers, variant):
    with pytest.raises(UserError, match=r"cannot sample\. Use a 'sentencepiece' tokenizer"):
        tokenizers[variant].sample(["text"], seed=1)


def test_a_new_kind_needs_nothing_but_its_class():
    class MorseTokenizer(Tokenizer, registered_name="morse"):
        """Two pieces."""

    try:
        assert tokenizer_class("morse") is MorseTokenizer
        assert MorseTokenizer([".", "-"]).vocabulary_size == 6
    finally:
        del tokenizer_module._REGISTRY["morse"]
    expected = r"`tokenizer` must be one of 'bytes', .* got 'byte'\. Did you mean 'bytes'"
    with pytest.raises(ValueError, match=expected):
        tokenizer_class("byte")
