"""Contract of all kinds of tokenizers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.text import (
    ByteTokenizer,
    SpecialIds,
    Tokenizer,
    WordPieceTokenizer,
    learn_tokenizer,
    load_tokenizer,
    number_words,
    registered_tokenizers,
    tokenizer_class,
)
from keras_transformer.text.registry import TOKENIZERS

VARIANTS = [
    "bytes",
    "unigram",
    "bpe",
    "wordpiece",
    "wordpiece_lowercase",
    "bert",
    "byte_pair",
    "pretrained_sentencepiece",
]
# Kinds that cannot spell every text.
WITH_UNKNOWNS = ("wordpiece", "bert")
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


def test_contract_covers_every_registered_kind(tokenizers):
    kinds = {tokenizers[variant].registered_name for variant in VARIANTS}
    assert kinds == set(registered_tokenizers())


def test_special_ids_are_the_defaults(tokenizer):
    assert tokenizer.special_ids == SpecialIds(padding=0, unknown=1, start=2, end=3)
    assert tokenizer.vocabulary()[:4] == ["<padding>", "<unknown>", "<start>", "<end>"]


def test_tokenize_returns_ragged_int32(tokenizer):
    ids = tokenizer.tokenize(TEXTS)
    assert isinstance(ids, tf.RaggedTensor)
    assert ids.dtype == tf.int32
    assert ids.shape.as_list() == [len(TEXTS), None]
    assert ids[1].shape == [0]


def test_tokenize_returns_no_control_ids(tokenizer, corpus):
    ids = tokenizer.tokenize([*TEXTS, *corpus]).values.numpy()
    assert not np.isin(ids, [0, 2, 3]).any()
    assert ids.max() < tokenizer.vocabulary_size
    if tokenizer.registered_name not in WITH_UNKNOWNS:
        assert 1 not in ids


def test_text_that_looks_like_special_token_stays_text(tokenizer, corpus):
    names = tokenizer.vocabulary()[:4]
    looks = ["<s>", "</s>", "<pad>", "<unk>", "[PAD]", "[UNK]", "[START]", "[END]", "[CLS]"]
    looks += ["<padding >", "<unknown >", "<start >", "<end >", "special 0", "special 3", *names]
    texts = [f"{look} Deutsch {look}" for look in looks] + looks
    ids = tokenizer.tokenize(texts).values.numpy()
    assert not np.isin(ids, [0, 2, 3]).any()
    # Every character is in the corpus or spelled in bytes, so nothing is lost, except for
    # WordPiece's unknown words.
    if tokenizer.registered_name not in WITH_UNKNOWNS:
        back = tokenizer.detokenize(tokenizer.tokenize(texts)).numpy().tolist()
        assert back == [text.encode() for text in texts]


def test_empty_batch_gives_empty_results(tokenizer):
    ids = tokenizer.tokenize([])
    assert ids.shape.as_list() == [0, None]
    assert tokenizer.detokenize(ids).shape == [0]
    assert tokenizer.detokenize(tf.zeros([0, 5], tf.int32)).shape == [0]
    assert tokenizer.tokens(ids).shape.as_list() == [0, None]
    assert tokenizer.normalize(tf.constant([], tf.string)).shape == [0]


def test_detokenize_of_empty_rows_gives_empty_strings(tokenizer):
    assert tokenizer.detokenize(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]
    assert tokenizer.detokenize([[]]).numpy().tolist() == [b""]


def test_tokenize_of_invalid_utf8_never_fails(tokenizer):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def round_trip(strings):
        return tokenizer.detokenize(tokenizer.tokenize(strings))

    back = round_trip(tf.constant(INVALID)).numpy().tolist()
    assert back == tokenizer.detokenize(tokenizer.tokenize(INVALID)).numpy().tolist()
    if tokenizer.registered_name == "bytes":
        assert back == INVALID
    else:
        assert back[4].endswith(b"ok")
        assert all(string.decode("utf-8") is not None for string in back)


def test_detokenize_of_padded_ids_equals_ragged_ids(tokenizer, corpus):
    ids = tokenizer.tokenize(corpus[:50])
    padded = ids.to_tensor(default_value=0)
    expected = tokenizer.detokenize(ids).numpy().tolist()
    assert tokenizer.detokenize(padded).numpy().tolist() == expected
    assert tokenizer.detokenize(tf.cast(padded, tf.int64)).numpy().tolist() == expected


def test_detokenize_leaves_out_special_and_impossible_ids(tokenizer):
    ids = tokenizer.tokenize(["Deutsch"]).to_list()[0]
    noisy = [2, 1]
    for number in ids:
        noisy += [number, 0, tokenizer.vocabulary_size, -1, 2**31 - 1]
    expected = tokenizer.detokenize([ids]).numpy().tolist()
    assert tokenizer.detokenize([[*noisy, 3, 0]]).numpy().tolist() == expected
    # Large numbers do not wrap around at 32 bits.
    wrapped = tf.constant([[number + 2**32 for number in ids]], tf.int64)
    assert tokenizer.detokenize(wrapped).numpy().tolist() == [b""]


def test_detokenize_accepts_uint8(tokenizer):
    ids = tf.constant([[2, 70, 109]], tf.uint8)
    expected = tokenizer.detokenize([[70, 109]]).numpy().tolist()
    assert tokenizer.detokenize(ids).numpy().tolist() == expected


def test_tokens_have_the_shape_of_ids(tokenizer):
    ids = tokenizer.tokenize(TEXTS)
    tokens = tokenizer.tokens(ids)
    assert tokens.row_lengths().numpy().tolist() == ids.row_lengths().numpy().tolist()
    vocabulary = tokenizer.vocabulary()
    assert tokens.to_list() == [[vocabulary[i].encode() for i in row] for row in ids.to_list()]
    impossible = tokenizer.tokens([[2, -1], [tokenizer.vocabulary_size, 3]]).numpy()
    assert impossible.tolist() == [[b"<start>", b"<unknown>"], [b"<unknown>", b"<end>"]]


def test_vocabulary_has_a_distinct_label_for_every_id(tokenizer):
    vocabulary = tokenizer.vocabulary()
    assert len(vocabulary) == tokenizer.vocabulary_size
    assert all(isinstance(name, str) for name in vocabulary)
    assert len(set(vocabulary)) == len(vocabulary)


def test_tokenize_in_graph_and_pipeline_equals_eager_call(tokenizer, corpus):
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


def test_tokenize_of_row_ignores_other_rows(tokenizer, corpus):
    strings = [*TEXTS, *corpus[::1500]]
    together = tokenizer.tokenize(strings).to_list()
    assert [tokenizer.tokenize([string]).to_list()[0] for string in strings] == together


def test_tokenize_works_after_setting_the_seed(tokenizer):
    # It discards the kernels of eager operations, in which tensorflow-text keeps models.
    expected = tokenizer.tokenize(TEXTS).to_list()
    tf.random.set_seed(1)
    assert tokenizer.tokenize(TEXTS).to_list() == expected


def test_loaded_tokenizer_equals_saved_tokenizer(tokenizer, tmp_path, corpus):
    tokenizer.save(tmp_path / "tokenizer")
    loaded = load_tokenizer(tmp_path / "tokenizer")
    assert type(loaded) is type(tokenizer)
    assert loaded.hash == tokenizer.hash
    assert loaded.vocabulary() == tokenizer.vocabulary()
    strings = [*TEXTS, *corpus[::100]]
    assert loaded.tokenize(strings).to_list() == tokenizer.tokenize(strings).to_list()


def test_hashes_of_tokenizers_differ(tokenizers):
    assert len({tokenizer.hash for tokenizer in tokenizers.values()}) == len(tokenizers)


def test_require_vocabulary_size_refuses_other_size(tokenizer):
    tokenizer.require_vocabulary_size(tokenizer.vocabulary_size, "The model's embedding")
    with pytest.raises(UserError, match=r"^The model's embedding has 77 ids, .* has \d+\."):
        tokenizer.require_vocabulary_size(77, "The model's embedding")


def test_wrong_shape_is_refused(tokenizer):
    with pytest.raises(ValueError, match=r"`strings` must have shape \[B\]; got \(\)"):
        tokenizer.tokenize("one string")
    with pytest.raises(ValueError, match=r"`strings` must have shape \[B\]; got \(1, 2\)"):
        tokenizer.tokenize([["a", "b"]])
    with pytest.raises(ValueError, match=r"`ids` must have shape \[B, T\]; got \(2,\)"):
        tokenizer.detokenize([5, 6])


@pytest.mark.parametrize("variant", ["bytes", "wordpiece"])
def test_sample_of_kind_without_sampling_is_refused(tokenizers, variant):
    with pytest.raises(UserError, match=r"cannot sample\..*'sentencepiece'"):
        tokenizers[variant].sample(["text"], seed=1)


def test_subclass_registers_itself():
    class MorseTokenizer(Tokenizer, registered_name="test_morse"):
        """Two pieces."""

    try:
        assert tokenizer_class("test_morse") is MorseTokenizer
        assert MorseTokenizer([".", "-"]).vocabulary_size == 6
    finally:
        del TOKENIZERS["test_morse"]
    expected = r"`tokenizer` must be one of .*'bytes', .* got 'byte'\. Did you mean 'bytes'"
    with pytest.raises(ValueError, match=expected):
        tokenizer_class("byte")


# --- special ids other than the default -----------------------------------------------------------

SPECIAL = {
    "padding-5": SpecialIds(padding=5),
    "first-three": SpecialIds(padding=0, unknown=2, start=0, end=1),  # as in T5
    "start-is-padding": SpecialIds(padding=20, unknown=1, start=20, end=0),  # as in Marian
    "start-is-end": SpecialIds(padding=1, unknown=3, start=2, end=2),  # as in BART
}
LINES = ["ein Haus am See", "ein Boot am Haus", "am See ein Boot"] * 10
MAKERS = {
    "bytes": lambda special_ids, _: ByteTokenizer(special_ids),
    "unigram": lambda special_ids, silent: learn_tokenizer(
        "sentencepiece", LINES, 275, special_ids=special_ids, progress=silent
    ),
    "bpe": lambda special_ids, silent: learn_tokenizer(
        "sentencepiece", LINES, 275, model="bpe", special_ids=special_ids, progress=silent
    ),
    "wordpiece": lambda special_ids, silent: learn_tokenizer(
        "wordpiece", LINES, 78, special_ids=special_ids, progress=silent
    ),
}


@pytest.mark.filterwarnings("ignore:The .* vocabulary has")  # the text is small
@pytest.mark.parametrize("special_ids", SPECIAL.values(), ids=SPECIAL.keys())
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_tokenizer_with_other_special_ids_keeps_the_contract(make, special_ids, silent, tmp_path):
    tokenizer = make(special_ids, silent)
    assert tokenizer.special_ids == special_ids
    ids = tokenizer.tokenize(LINES[:3])
    assert not np.isin(ids.values, special_ids.ids).any()
    assert tf.reduce_max(ids.values) < tokenizer.vocabulary_size
    padded = tf.concat([ids.to_tensor(special_ids.padding), tf.fill([3, 1], special_ids.end)], 1)
    assert tokenizer.detokenize(padded).numpy().tolist() == [line.encode() for line in LINES[:3]]
    noisy = tf.constant([[special_ids.start, special_ids.unknown, -1, tokenizer.vocabulary_size]])
    assert tokenizer.detokenize(noisy).numpy().tolist() == [b""]
    labels = tokenizer.vocabulary()
    assert {number: labels[number] for number in special_ids.ids} == special_ids.names
    assert len(set(labels)) == len(labels)
    assert tokenizer.tokens([-1]).numpy() == [special_ids.names[special_ids.unknown].encode()]
    sizes = tokenizer.word_sizes(tf.ragged.constant([line.split() for line in LINES[:3]]))
    numbers = number_words(tokenizer, padded, sizes.to_tensor())
    is_text = ~np.isin(padded, special_ids.ids)
    np.testing.assert_array_equal(numbers > 0, is_text)
    np.testing.assert_array_equal(tf.reduce_max(numbers, axis=1), [4, 4, 4])
    tokenizer.save(tmp_path / "tokenizer")
    loaded = load_tokenizer(tmp_path / "tokenizer")
    assert (loaded.special_ids, loaded.hash) == (special_ids, tokenizer.hash)
    assert loaded.tokenize(LINES[:3]).to_list() == ids.to_list()


@pytest.mark.parametrize("special_ids", [SpecialIds(padding=260), SpecialIds(end=9999)])
def test_special_ids_beyond_the_vocabulary_are_refused(special_ids):
    with pytest.raises(UserError, match=r"special_ids.*260"):
        ByteTokenizer(special_ids)


def test_hash_depends_on_special_ids():
    pieces = ["a", "b", "##c", "d"]
    made = [WordPieceTokenizer(pieces, special_ids=each) for each in (None, *SPECIAL.values())[:3]]
    assert len({tokenizer.hash for tokenizer in made}) == 3


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"padding": 3}, "`padding` and `end` .*3"),
        ({"padding": 1}, "`padding` and `unknown` .*1"),
        ({"start": -1}, "`start` .*-1"),
        ({"end": 1.5}, "`end` .*1.5"),
    ],
)
def test_wrong_special_ids_are_refused(settings, facts):
    with pytest.raises(UserError, match=facts):
        SpecialIds(**settings)
