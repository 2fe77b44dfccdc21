"""SentencePiece tokenizers: their models, and random segmentation with a seed."""

import gzip
import io
import os
import threading

import pytest
import sentencepiece
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.text import SentencePieceTokenizer, learn_tokenizer


@pytest.fixture(params=["unigram", "bpe"])
def tokenizer(request, tokenizers):
    return tokenizers[request.param]


def test_word_has_same_pieces_at_start_and_in_middle(tokenizer):
    (start, middle) = tokenizer.tokenize(["Deutschland", "Französisch Deutschland"]).to_list()
    assert middle[-len(start) :] == start


def test_tokenize_equals_sentencepiece_library(tokenizer, corpus):
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_bytes())
    texts = [*corpus[::200], "▁ \x10_ \x10P", "a\n\tb", "👍🏽 <s>"]
    assert library.encode([" " + text for text in texts]) == tokenizer.tokenize(texts).to_list()


def test_detokenize_of_incomplete_character_replaces_it(tokenizer):
    (ids,) = tokenizer.tokenize(["\U0001f9ff"]).to_list()
    assert len(ids) >= 4
    (back,) = tokenizer.detokenize([ids[:-1]]).numpy()
    assert "\ufffd" in back.decode()


def test_names_of_special_pieces_are_learned_as_text(silent):
    lines = ["<s> </s> <pad> <unk> <start > <padding> <0x41> <0x0A>"] * 200 + ["plain text"] * 10
    for model in ("unigram", "bpe"):
        tokenizer = learn_tokenizer("sentencepiece", lines, 283, model=model, progress=silent)
        ids = tokenizer.tokenize(lines[:1])
        assert tf.reduce_min(ids.values) >= 4
        assert tokenizer.detokenize(ids).numpy().tolist() == [lines[0].encode()]
        (letter,) = tokenizer.tokenize(["A"]).to_list()
        assert letter[-1] == 4 + ord("A")  # spelled in bytes, because no text contains it


def test_bytes_that_are_no_model_are_refused(tokenizer):
    for content in (b"", b"nonsense", tokenizer.to_bytes()[:1000]):
        with pytest.raises(UserError, match="not a SentencePiece model"):
            SentencePieceTokenizer(content)


def test_model_with_other_special_pieces_is_refused(corpus):
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus[:1000]),
        model_writer=content,
        vocab_size=800,
        minloglevel=2,
    )
    with pytest.raises(UserError, match="does not spell unknown characters in bytes"):
        SentencePieceTokenizer(content.getvalue())


def test_sample_depends_on_strings_and_seed_alone(tokenizer, corpus):
    first = tokenizer.sample(corpus[:200], seed=5)
    tokenizer.sample(corpus[:17], seed=6)
    again = tokenizer.sample(corpus[:200], seed=5)
    assert first.to_list() == again.to_list()
    assert first.to_list() != tokenizer.sample(corpus[:200], seed=6).to_list()
    assert first.dtype == tf.int32
    assert first.shape.as_list() == [200, None]


def test_samples_in_parallel_equal_samples_in_sequence(tokenizer, corpus):
    expected = {seed: tokenizer.sample(corpus[:100], seed).to_list() for seed in range(8)}
    drawn = {}

    def draw(seed):
        drawn[seed] = tokenizer.sample(corpus[:100], seed).to_list()

    threads = [threading.Thread(target=draw, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == expected


def test_sample_is_another_segmentation_of_same_text(tokenizer, corpus):
    texts = [*corpus[::50], "", " ", "▁ \x10_", "👍🏽"]
    sample = tokenizer.sample(texts, seed=1)
    assert tokenizer.detokenize(sample).numpy().tolist() == [text.encode() for text in texts]
    plain = tokenizer.tokenize(texts)
    differing = sum(a != b for a, b in zip(sample.to_list(), plain.to_list(), strict=True))
    assert differing > len(texts) / 4
    assert len(sample.values) > len(plain.values)


def test_alpha_changes_randomness(tokenizers, corpus):
    texts = corpus[::20]
    lengths = [len(tokenizers["bpe"].sample(texts, 1, alpha=a).values) for a in (0.0, 0.1, 0.6)]
    assert lengths == sorted(set(lengths))
    assert tokenizers["bpe"].sample(texts, 1, alpha=0.0).to_list() == (
        tokenizers["bpe"].tokenize(texts).to_list()
    )
    lengths = [len(tokenizers["unigram"].sample(texts, 1, alpha=a).values) for a in (5, 0.5, 0.1)]
    assert lengths == sorted(set(lengths))


def test_sample_accepts_large_seed_and_refuses_wrong_arguments(tokenizer):
    for seed in (0, 2**32 - 1, 2**63, 2**64 - 1):
        assert tokenizer.sample(["Deutschland"], seed).shape[0] == 1
    with pytest.raises(ValueError, match=r"`seed` must be .* got -1"):
        tokenizer.sample(["text"], seed=-1)
    with pytest.raises(ValueError, match="`alpha` must be"):
        tokenizer.sample(["text"], seed=1, alpha=-0.5)
    assert tokenizer.sample([], seed=1).shape.as_list() == [0, None]


@pytest.mark.slow
def test_multi30k_is_restored():
    """Set MULTI30K to the directory that contains `raw/train.en.gz` and `raw/train.de.gz`."""
    if "MULTI30K" not in os.environ:
        pytest.skip("MULTI30K is not set")
    lines = []
    for language in ("en", "de"):
        path = f"{os.environ['MULTI30K']}/raw/train.{language}.gz"
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            lines += file.read().split("\n")[:-1]
    for model in ("unigram", "bpe"):
        tokenizer = learn_tokenizer("sentencepiece", lines, 8000, model=model)
        assert tokenizer.vocabulary_size == 8000
        back = tokenizer.detokenize(tokenizer.tokenize(lines)).numpy()
        assert [line.decode() for line in back] == lines
