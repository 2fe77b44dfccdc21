"""Properties of batches of every kind, and the shuffling of examples."""

import collections
import hashlib
import itertools
import json
import subprocess
import sys
import textwrap
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data import (
    DocumentBatches,
    LabeledBatches,
    LabelIndex,
    MemoryCorpus,
    PackedBatches,
    PairBatches,
    choose_buckets,
    tokenize_corpus,
)
from keras_transformer.data.batching.batches import shuffled
from keras_transformer.text import ByteTokenizer, SpecialIds

KINDS = ["pairs", "documents", "labeled", "packed"]


def make_batches(kind, make_cache, pairs, documents, seed=11):
    pairs, documents = pairs[:150], documents[:150]
    if kind == "pairs":
        cache = make_cache(pairs)
        return PairBatches(cache, choose_buckets(cache, tokens=256, max_buckets=5), seed=seed)
    if kind == "packed":
        return PackedBatches(
            make_cache(documents, columns=("text",)), row_length=48, tokens=256, seed=seed
        )
    if kind == "documents":
        cache = make_cache(documents, columns=("text",))
        table = choose_buckets(cache, tokens=256, max_buckets=5)
        return DocumentBatches(cache, table, seed=seed)
    labeled = [(text, "good" if "g" in text else "bad") for text, _ in pairs]
    cache = make_cache(labeled, columns=("text", "label"))
    return LabeledBatches(cache, choose_buckets(cache, tokens=256, max_buckets=5), seed=seed)


@pytest.fixture(params=KINDS)
def batches(request, make_cache, pairs, documents):
    return make_batches(request.param, make_cache, pairs, documents)


def as_bytes(batch):
    """Returns a value that is equal for equal batches only."""
    return [
        (array.shape, array.dtype.str, array.tobytes())
        for array in map(np.asarray, tf.nest.flatten(batch))
    ]


def epoch_of(batches, epoch):
    return [as_bytes(batches.batch(epoch, number)) for number in range(len(batches))]


def test_same_seed_gives_same_bytes_in_any_order_of_calls(
    batches, request, make_cache, pairs, documents
):
    kind = request.node.callspec.params["batches"]
    again = make_batches(kind, make_cache, pairs, documents)
    assert epoch_of(batches, 0) == epoch_of(again, 0)
    # The order of the calls does not matter.
    later = [as_bytes(again.batch(3, number)) for number in reversed(range(len(again)))]
    assert epoch_of(batches, 3) == later[::-1]


def test_batches_of_other_seed_or_epoch_differ(batches, request, make_cache, pairs, documents):
    kind = request.node.callspec.params["batches"]
    other = make_batches(kind, make_cache, pairs, documents, seed=12)
    assert len(other) == len(batches) > 4
    epochs = [epoch_of(batches, 0), epoch_of(batches, 1), epoch_of(other, 0)]
    for one, another in itertools.combinations(epochs, 2):
        assert sorted(one) != sorted(another)
        # Batches of one row may be equal by chance.
        assert sum(x == y for x, y in zip(one, another, strict=True)) <= len(batches) / 4


def test_dataset_yields_batches_in_order(batches):
    found = [as_bytes(batch) for batch in batches.dataset(epochs=2)]
    assert found == epoch_of(batches, 0) + epoch_of(batches, 1)


def test_dataset_resumed_anywhere_yields_same_rest(batches):
    whole = [as_bytes(batch) for batch in batches.dataset(epochs=2)]
    for epoch, number in [(0, 0), (0, 1), (0, len(batches) - 1), (1, 0), (1, 2)]:
        resumed = batches.dataset(start=(epoch, number), epochs=2 - epoch)
        assert [as_bytes(batch) for batch in resumed] == whole[epoch * len(batches) + number :]
        endless = batches.dataset(start=(epoch, number)).take(3)
        assert next(as_bytes(batch) for batch in endless) == whole[epoch * len(batches) + number]


def test_late_epoch_needs_no_replay(batches):
    resumed = batches.dataset(start=(10**6, 1), epochs=1)
    assert as_bytes(next(iter(resumed))) == as_bytes(batches.batch(10**6, 1))


@pytest.mark.parametrize("workers", [2, 3])
def test_parts_of_workers_are_rows_of_batch(batches, workers):
    datasets = [
        batches.dataset(epochs=1, worker=worker, workers=workers) for worker in range(workers)
    ]
    for number, parts in enumerate(zip(*datasets, strict=True)):
        whole = tf.nest.flatten(batches.batch(0, number))
        parts = [tf.nest.flatten(part) for part in parts]
        for array, *shares in zip(whole, *parts, strict=True):
            shares = [share.numpy() for share in shares]
            assert len({share.shape for share in shares}) == 1
            # Row r of the batch is row r // workers of worker r % workers; the rest is padding.
            merged = np.stack(shares, axis=1).reshape(-1, *array.shape[1:])
            np.testing.assert_array_equal(merged[: len(array)], array)
            assert not merged[len(array) :].any()
            assert len(merged) - len(array) < workers


def test_shapes_are_those_of_the_report(batches):
    buckets = [part.bucket for part in batches.report().buckets]
    known = {(bucket.rows, bucket.lengths) for bucket in buckets}
    traces = []

    @tf.function
    def step(*batch):
        traces.append(1)
        return tf.shape(batch[1])[0]

    found = set()
    for batch in batches.dataset(epochs=3):
        step(*batch)
        inputs = batch[0]
        lengths = [inputs[name].shape[1] for name in ("source", "target") if name in inputs]
        found.add((int(batch[1].shape[0]), tuple(lengths)))
    assert found <= known
    assert len(traces) == len(found)


def test_dataset_has_static_ranks_and_types(batches):
    dataset = batches.dataset()
    assert dataset.element_spec == batches.element_spec
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert batches.dataset(epochs=2).cardinality() == 2 * len(batches)
    assert batches.dataset(start=(4, 3), epochs=1).cardinality() == len(batches) - 3
    for spec in tf.nest.flatten(batches.element_spec):
        assert spec.shape.rank in (1, 2)


def test_batch_beyond_epoch_raises(batches):
    assert len(list(batches.plan(0))) == len(batches.plan(0)) == len(batches)
    for number in (-1, len(batches)):
        with pytest.raises(IndexError, match=rf"from 0 to {len(batches) - 1}; got"):
            batches.batch(0, number)
    with pytest.raises(ValueError, match=r"`epoch` must be .*got -1"):
        batches.batch(-1, 0)


def test_report_counts_tokens_and_slots_of_batches(batches):
    report = batches.report()
    tokens = slots = 0
    for number in range(len(batches)):
        inputs = batches.batch(0, number)[0]
        for name in set(inputs) - {"segments"}:
            tokens += np.count_nonzero(inputs[name])
            slots += inputs[name].size
    assert report.batches == len(batches)
    assert report.tokens == tokens
    assert report.efficiency == tokens / slots
    assert report.examples == len(batches.cache)
    assert report.skipped == report.truncated == 0
    last_line = str(report).splitlines()[-1]
    assert f"{tokens / slots:.1%}" in last_line
    assert f"{report.examples:,}" in last_line


def test_fingerprint_depends_on_seed_and_corpus(batches, request, make_cache, pairs, documents):
    kind = request.node.callspec.params["batches"]
    prints = [batches.fingerprint()]
    prints.append(make_batches(kind, make_cache, pairs, documents, seed=12).fingerprint())
    prints.append(make_batches(kind, make_cache, pairs[1:], documents[1:]).fingerprint())
    assert len(set(prints)) == 3
    assert make_batches(kind, make_cache, pairs, documents).fingerprint() == prints[0]


def test_fingerprint_depends_on_settings(make_cache, pairs, documents):
    cache = make_cache(pairs)
    tables = [choose_buckets(cache, max_buckets=number) for number in (2, 3)]
    prints = [PairBatches(cache, table, seed=1).fingerprint() for table in tables]
    cache = make_cache(documents, columns=("text",))
    prints += [PackedBatches(cache, row_length=length, seed=1).fingerprint() for length in (64, 65)]
    assert len(set(prints)) == 4


def test_another_process_makes_same_batches(make_cache, pairs):
    cache = make_cache(pairs)
    batches = PairBatches(cache, choose_buckets(cache, tokens=512), seed=2**64 - 1)
    code = """
        import sys, zlib
        from keras_transformer.data import PairBatches, TokenCache, choose_buckets
        cache = TokenCache(sys.argv[1])
        batches = PairBatches(cache, choose_buckets(cache, tokens=512), seed=2**64 - 1)
        for number in range(len(batches)):
            inputs, labels = batches.batch(5, number)
            print(labels.shape, *[zlib.crc32(array) for array in (*inputs.values(), labels)])
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), cache.path],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = []
    for number in range(len(batches)):
        inputs, labels = batches.batch(5, number)
        sums = [zlib.crc32(array) for array in (*inputs.values(), labels)]
        lines.append(" ".join(map(str, [labels.shape, *sums])))
    assert process.stdout.splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": (0, 10**6)}, r"`start` must be .* got \(0, 1000000\)"),
        ({"start": (-1, 0)}, "`epoch of start` must be .* got -1"),
        ({"start": (0, -1)}, "`number of start` must be .* got -1"),
        ({"epochs": 0}, "`epochs` must be .* got 0"),
        ({"workers": 0}, "`workers` must be .* got 0"),
        ({"worker": 2, "workers": 2}, "`worker` must be below `workers`=2; got 2"),
    ],
)
def test_dataset_refuses_invalid_arguments(make_cache, pairs, documents, arguments, message):
    batches = make_batches("pairs", make_cache, pairs, documents)
    with pytest.raises(ValueError, match=message):
        batches.dataset(**arguments)


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, None])
def test_invalid_seed_is_refused(make_cache, pairs, documents, seed):
    with pytest.raises(ValueError, match="`seed` must be"):
        make_batches("pairs", make_cache, pairs, documents, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_cache_with_other_columns_is_refused(make_cache, pairs, documents, kind):
    other = make_cache(documents, columns=("text",)) if kind == "pairs" else make_cache(pairs)
    with pytest.raises(ValueError, match=r"need a cache with the columns \(.*\); got \("):
        make_batches(kind, lambda examples, columns=None: other, pairs, documents)


def test_fit_accepts_dataset(batches):
    """A loss that ignores padding gets the same tokens in every epoch."""
    inputs = {
        name: keras.Input([None], name=name, dtype="int32") for name in batches.element_spec[0]
    }
    embedded = [keras.layers.Embedding(260, 8)(value) for value in inputs.values()]
    is_labeled = len(batches.element_spec) == 3
    if is_labeled:
        outputs = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(embedded[0]))
    else:
        outputs = keras.layers.Dense(260)(embedded[list(inputs).index("target")])
    model = keras.Model(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=None if is_labeled else 0
    )
    model.compile("adam", loss)
    history = model.fit(
        batches.dataset(), steps_per_epoch=len(batches), epochs=2, verbose=0, shuffle=False
    )
    assert np.isfinite(history.history["loss"]).all()
    assert history.history["loss"][1] < history.history["loss"][0]
    assert model.optimizer.iterations == 2 * len(batches)


def test_part_of_invalid_worker_is_refused(make_cache, pairs, documents):
    batches = make_batches("pairs", make_cache, pairs, documents)
    with pytest.raises(ValueError, match="`worker` must be below `workers`=2; got 5"):
        batches.part(0, 0, worker=5, workers=2)
    with pytest.raises(ValueError, match=r"`start` must be an epoch and a number.*; got 5"):
        batches.dataset(start=5)


def test_sampler_of_other_vocabulary_raises(make_cache, pairs):
    cache = make_cache(pairs, keep_text=True)
    table = choose_buckets(cache, tokens=512, headroom=1.5)

    def other(strings, seed):
        return tf.ragged.constant([[1999]] * len(strings), dtype=tf.int32)

    batches = PairBatches(cache, table, seed=1, samplers={"target": other})
    with pytest.raises(ValueError, match="sampler of column 'target' must give ids from 0 to 259"):
        batches.batch(0, 0)


def test_dataset_has_no_autotuning(batches):
    """An iterator that ends would wait for TensorFlow's tuner, which sleeps longer and longer."""
    assert batches.dataset().options().autotune.enabled is False


# Special ids other than the default ones.


@pytest.mark.parametrize(
    "special_ids",
    [
        SpecialIds(padding=259, unknown=258, start=257, end=256),
        SpecialIds(padding=5, unknown=0, start=1, end=30),
        SpecialIds(padding=1, unknown=3, start=1, end=2),
    ],
    ids=["last", "scattered", "start is padding"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_use_special_ids_of_cache(
    kind, special_ids, tmp_path, make_cache, pairs, documents
):
    def make_shifted_cache(examples, columns=("source", "target")):
        tokenizers = dict.fromkeys(columns, ByteTokenizer(special_ids))
        if "label" in columns:
            tokenizers["label"] = LabelIndex(sorted({label for _, label in examples}))
        return tokenize_corpus(MemoryCorpus(examples, columns), tokenizers, tmp_path / "shifted")

    usual = make_batches(kind, make_cache, pairs, documents)
    shifted = make_batches(kind, make_shifted_cache, pairs, documents)
    assert shifted.cache.special_ids == special_ids
    assert len(usual) == len(shifted)
    # The new id of each id of the usual batches.
    ids = np.concatenate([np.zeros(4, np.int32), ByteTokenizer(special_ids).piece_ids])
    ids[:4] = special_ids.padding, special_ids.unknown, special_ids.start, special_ids.end

    def translate(name, array):
        return array if name in ("segments", "weights", "classes") else ids[array]

    for number in range(len(usual)):
        for worker, workers in ((0, 1), (2, 3)):
            inputs, labels, *weights = usual.part(1, number, worker, workers)
            found_inputs, found_labels, *found_weights = shifted.part(1, number, worker, workers)
            for name, array in inputs.items():
                np.testing.assert_array_equal(found_inputs[name], translate(name, array))
            name = "classes" if kind == "labeled" else "labels"
            np.testing.assert_array_equal(found_labels, translate(name, labels))
            np.testing.assert_array_equal(found_weights, weights)


# Shuffling.

WORD = 2**64 - 1


def philox_4x64_10(counter, key):
    """Returns the draws of Salmon et al. 2011, section 3.3, in plain Python."""
    c, k = list(counter), list(key)
    for round_number in range(10):
        if round_number:
            k = [(k[0] + 0x9E3779B97F4A7C15) & WORD, (k[1] + 0xBB67AE8584CAA73B) & WORD]
        first, second = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(second >> 64) ^ c[1] ^ k[0], second & WORD, (first >> 64) ^ c[3] ^ k[1], first & WORD]
    return c


def test_philox_reference_gives_known_answers():
    # From the test vectors of the authors' Random123 library.
    assert philox_4x64_10([0] * 4, [0] * 2) == [
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    ]


def test_shuffled_is_order_of_philox_draws():
    key = (2026, "examples", 3, 1)
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    words = [int.from_bytes(digest[first : first + 8], "little") for first in (0, 8)]
    draws = [draw for block in range(1, 6) for draw in philox_4x64_10([block, 0, 0, 0], words)]
    assert shuffled(20, *key).tolist() == sorted(range(20), key=draws.__getitem__)


@given(st.integers(0, 500), st.integers(0, 2**64 - 1), st.integers(0, 2**31))
def test_shuffled_has_every_number_once(count, seed, epoch):
    assert sorted(shuffled(count, seed, epoch).tolist()) == list(range(count))


def test_shuffled_with_other_keys_differs():
    keys = [(1, "a", 0), (1, "a", 1), (2, "a", 0), (1, "b", 0), (11, "a", 0), (1, "a", 0, 0)]
    orders = [shuffled(100, *key) for key in keys]
    for one, other in itertools.combinations(orders, 2):
        # Two random orders agree in one place on average, and hardly ever in eight.
        assert np.count_nonzero(one == other) < 8


def test_shuffled_orders_are_equally_likely():
    counts = collections.Counter(tuple(shuffled(3, 5, epoch).tolist()) for epoch in range(6000))
    assert len(counts) == 6
    assert max(abs(count - 1000) for count in counts.values()) < 150  # five standard deviations
