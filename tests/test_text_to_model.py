"""Text, data, models and loss together: from strings to a model that learns."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import LanguageModel, TextEncoder, TokenCrossEntropy, Transformer
from keras_transformer.data import (
    LabeledBatches,
    LabelIndex,
    MemoryCorpus,
    PackedBatches,
    PairBatches,
    choose_buckets,
    make_dates,
    tokenize_corpus,
)
from keras_transformer.text import ByteTokenizer, TokenizerPair, learn_tokenizer

SIZES = {"hidden_dim": 32, "intermediate_dim": 64, "num_heads": 4, "dropout": 0.0}


@pytest.fixture(scope="module")
def dates():
    return make_dates(training_pairs=400, validation_pairs=50, test_pairs=50, held_out_pairs=50)


@pytest.fixture(scope="module")
def tokenizer(dates):
    lines = (text for pair in dates.train for text in pair)
    return learn_tokenizer("sentencepiece", lines, 500, progress=lambda *_: None)


def made(model_class, tokenizer, **settings):
    depth = dict.fromkeys(model_class.config_class.depth_fields, 1)
    return model_class(vocabulary_size=tokenizer.vocabulary_size, **SIZES, **depth, **settings)


def test_transformer_learns_from_pairs_by_fit(dates, tokenizer, tmp_path):
    cache = tokenize_corpus(dates.train, tokenizer, tmp_path)
    batches = PairBatches(cache, choose_buckets(cache, tokens=512), seed=1)
    model = made(Transformer, tokenizer)
    model.compile(keras.optimizers.Adam(3e-3), TokenCrossEntropy(0.1))
    history = model.fit(
        batches.dataset(), steps_per_epoch=len(batches), epochs=4, verbose=0, shuffle=False
    ).history
    assert history["loss"][-1] < 0.75 * history["loss"][0]


def test_compiled_step_is_traced_once_for_each_bucket(dates, tokenizer, tmp_path):
    """An epoch has only the shapes of the table."""
    cache = tokenize_corpus(dates.train, tokenizer, tmp_path)
    table = choose_buckets(cache, tokens=512, max_buckets=5)
    batches = PairBatches(cache, table, seed=1)
    model, loss = made(Transformer, tokenizer), TokenCrossEntropy()
    traced = []

    @tf.function(reduce_retracing=False)
    def step(inputs, labels):
        traced.append((inputs["source"].shape, inputs["target"].shape))
        return loss(labels, model(inputs, training=True))

    for epoch in range(2):
        for number in range(len(batches)):
            inputs, labels = tf.nest.map_structure(tf.constant, batches.batch(epoch, number))
            assert np.isfinite(step(inputs, labels))
    shapes = {
        ((bucket.rows, bucket.lengths[0]), (bucket.rows, bucket.lengths[1])) for bucket in table
    }
    assert len(traced) == len(set(map(str, traced))) <= len(table) == 5
    assert {(tuple(source), tuple(target)) for source, target in traced} <= shapes


def test_loss_of_batch_is_equal_on_one_worker_and_on_three(dates, tokenizer, tmp_path):
    """The parts of three workers, with padding rows, add up to the loss of the batch."""
    cache = tokenize_corpus(dates.train, tokenizer, tmp_path)
    batches = PairBatches(cache, choose_buckets(cache, tokens=300), seed=1)
    model, loss = made(Transformer, tokenizer), TokenCrossEntropy()
    inputs, labels = batches.batch(0, 3)
    whole = float(loss(labels, model(inputs)))
    total = count = 0
    for worker in range(3):
        part_inputs, part_labels = batches.part(0, 3, worker, 3)
        tokens = int(np.sum(part_labels != 0))
        total += tokens * float(loss(part_labels, model(part_inputs)))
        count += tokens
    assert count == np.sum(labels != 0)
    assert total / count == pytest.approx(whole, abs=1e-5)


def test_loss_of_packed_documents_equals_loss_of_each_alone(dates, tokenizer, tmp_path):
    documents = [(source,) for source, _ in list(dates.train)[:60]]
    cache = tokenize_corpus(MemoryCorpus(documents, columns=("text",)), tokenizer, tmp_path)
    batches = PackedBatches(cache, row_length=64, tokens=512, seed=1)
    model = made(LanguageModel, tokenizer, is_packed=True)
    per_token = TokenCrossEntropy()
    total = count = 0
    for number in range(len(batches)):
        inputs, labels = batches.batch(0, number)
        tokens = int(np.sum(labels != 0))
        total += tokens * float(per_token(labels, model(inputs)))
        count += tokens
    alone = alone_count = 0
    for ids in tokenizer.tokenize([text for (text,) in documents]).to_list():
        inputs = {"target": np.array([[2, *ids]]), "segments": np.ones((1, len(ids) + 1), int)}
        alone += (len(ids) + 1) * float(per_token(np.array([[*ids, 3]]), model(inputs)))
        alone_count += len(ids) + 1
    assert count == alone_count
    assert total / count == pytest.approx(alone / alone_count, abs=1e-5)


def test_text_encoder_learns_from_labeled_texts_by_fit(tmp_path):
    """The label of a text is the half of the alphabet that its first letter is in."""
    random = np.random.default_rng(5)
    words = ["".join(map(chr, random.integers(97, 123, 5))) for _ in range(300)]
    examples = [(word, "early" if word[0] < "n" else "late") for word in words]
    tokenizers = {"text": ByteTokenizer(), "label": LabelIndex(["early", "late"])}
    corpus = MemoryCorpus(examples, columns=("text", "label"))
    cache = tokenize_corpus(corpus, tokenizers, tmp_path)
    batches = LabeledBatches(cache, choose_buckets(cache, tokens=256), seed=1)
    model = made(TextEncoder, tokenizers["text"], num_classes=2, pooling="first")
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    history = model.fit(
        batches.dataset(), steps_per_epoch=len(batches), epochs=6, verbose=0, shuffle=False
    ).history
    assert history["accuracy"][-1] > 0.9


def test_transformer_with_two_vocabularies_has_logits_of_target(dates, tmp_path):
    target = ByteTokenizer()
    sources = (source for source, _ in dates.train)
    source = learn_tokenizer("wordpiece", sources, 400, progress=lambda *_: None)
    pair = TokenizerPair(source, target)
    cache = tokenize_corpus(
        dates.validation, {"source": pair.source, "target": pair.target}, tmp_path
    )
    batches = PairBatches(cache, choose_buckets(cache, tokens=512), seed=1)
    model = made(
        Transformer,
        pair.source,
        target_vocabulary_size=pair.target.vocabulary_size,
        share_embeddings="target",
    )
    inputs, labels = batches.batch(0, 0)
    assert model(inputs).shape == (*labels.shape, 260)
