"""What holds for batches of every kind."""

import itertools
import subprocess
import sys
import textwrap
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import (
    DocumentBatches,
    LabeledBatches,
    PackedBatches,
    PairBatches,
    choose_buckets,
)

KINDS = ["pairs", "documents", "labeled", "packed"]


def make_batches(kind, make_cache, pairs, documents, seed=11):
    pairs, documents = pairs[:150], documents[:150]
    if kind == "pairs":
        cache = make_cache(pairs)
        return PairBatches(cache, choose_buckets(cache, tokens=256, max_buckets=5), seed=seed)
    if kind == "packed":
        return PackedBatches(
            make_cache(documents, columns=("text",)), width=48, tokens=256, seed=seed
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
    """A batch as something that is equal for equal batches only."""
    return [
        (array.shape, array.dtype.str, array.tobytes())
        for array in map(np.asarray, tf.nest.flatten(batch))
    ]


def epoch_of(batches, epoch):
    return [as_bytes(batches.batch(epoch, number)) for number in range(len(batches))]


def test_one_seed_gives_the_same_bytes(batches, request, make_cache, pairs, documents):
    kind = request.node.callspec.params["batches"]
    again = make_batches(kind, make_cache, pairs, documents)
    assert epoch_of(batches, 0) == epoch_of(again, 0)
    # In whatever order they are asked for.
    later = [as_bytes(again.batch(3, number)) for number in reversed(range(len(again)))]
    assert epoch_of(batches, 3) == later[::-1]


def test_seeds_and_epochs_differ(batches, request, make_cache, pairs, documents):
    kind = request.node.callspec.params["batches"]
    other = make_batches(kind, make_cache, pairs, documents, seed=12)
    assert len(other) == len(batches) > 4
    epochs = [epoch_of(batches, 0), epoch_of(batches, 1), epoch_of(other, 0)]
    for one, another in itertools.combinations(epochs, 2):
        assert sorted(one) != sorted(another)
        # Batches of one row may be equal by chance.
        assert sum(x == y for x, y in zip(one, another, strict=True)) <= len(batches) / 4


def test_the_dataset_is_the_batches_in_order(batches):
    found = [as_bytes(batch) for batch in batches.dataset(epochs=2)]
    assert found == epoch_of(batches, 0) + epoch_of(batches, 1)


def test_resuming_anywhere_gives_the_same_tail(batches):
    whole = [as_bytes(batch) for batch in batches.dataset(epochs=2)]
    for epoch, number in [(0, 0), (0, 1), (0, len(batches) - 1), (1, 0), (1, 2)]:
        resumed = batches.dataset(start=(epoch, number), epochs=2 - epoch)
        assert [as_bytes(batch) for batch in resumed] == whole[epoch * len(batches) + number :]
        endless = batches.dataset(start=(epoch, number)).take(3)
        assert next(as_bytes(batch) for batch in endless) == whole[epoch * len(batches) + number]


def test_a_late_epoch_needs_no_replay(batches):
    resumed = batches.dataset(start=(10**6, 1), epochs=1)
    assert as_bytes(next(iter(resumed))) == as_bytes(batches.batch(10**6, 1))


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_the_rows_of_each_batch(batches, workers):
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


def test_shapes_are_few_and_known_in_advance(batches):
    buckets = [part.bucket for part in batches.report().buckets]
    known = {(bucket.rows, bucket.widths) for bucket in buckets}
    traces = []

    @tf.function
    def step(*batch):
        traces.append(1)
        return tf.shape(batch[1])[0]

    found = set()
    for batch in batches.dataset(epochs=3):
        step(*batch)
        inputs = batch[0]
        widths = [inputs[name].shape[1] for name in ("source", "target") if name in inputs]
        found.add((int(batch[1].shape[0]), tuple(widths)))
    assert found <= known
    assert len(traces) == len(found)


def test_ranks_and_types_are_static(batches):
    dataset = batches.dataset()
    assert dataset.element_spec == batches.element_spec
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert batches.dataset(epochs=2).cardinality() == 2 * len(batches)
    assert batches.dataset(start=(4, 3), epochs=1).cardinality() == len(batches) - 3
    for spec in tf.nest.flatten(batches.element_spec):
        assert spec.shape.rank in (1, 2)


def test_there_is_nothing_beyond_the_epoch(batches):
    assert len(list(batches.plan(0))) == len(batches.plan(0)) == len(batches)
    for number in (-1, len(batches)):
        with pytest.raises(IndexError, match=rf"from 0 to {len(batches) - 1} was expected; got"):
            batches.batch(0, number)
    with pytest.raises(ValueError, match="`epoch` must be a whole number of at least 0; got -1"):
        batches.batch(-1, 0)


def test_the_report_counts_what_is_in_the_batches(batches):
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


def test_the_fingerprint_is_of_all_that_matters(batches, request, make_cache, pairs, documents):
    kind = request.node.callspec.params["batches"]
    prints = [batches.fingerprint()]
    prints.append(make_batches(kind, make_cache, pairs, documents, seed=12).fingerprint())
    prints.append(make_batches(kind, make_cache, pairs[1:], documents[1:]).fingerprint())
    assert len(set(prints)) == 3
    assert make_batches(kind, make_cache, pairs, documents).fingerprint() == prints[0]


def test_settings_are_part_of_the_fingerprint(make_cache, pairs, documents):
    cache = make_cache(pairs)
    tables = [choose_buckets(cache, max_buckets=number) for number in (2, 3)]
    prints = [PairBatches(cache, table, seed=1).fingerprint() for table in tables]
    cache = make_cache(documents, columns=("text",))
    prints += [PackedBatches(cache, width=width, seed=1).fingerprint() for width in (64, 65)]
    assert len(set(prints)) == 4


def test_another_process_makes_the_same_batches(make_cache, pairs):
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
        ({"start": (0, 10**6)}, r"`start` must be in an epoch of \d+ batches; got \(0, 1000000\)"),
        ({"start": (-1, 0)}, "`epoch of start` must be a whole number of at least 0; got -1"),
        ({"start": (0, -1)}, "`number of start` must be a whole number of at least 0; got -1"),
        ({"epochs": 0}, "`epochs` must be a whole number of at least 1; got 0"),
        ({"workers": 0}, "`workers` must be a whole number of at least 1; got 0"),
        ({"worker": 2, "workers": 2}, "`worker` must be below `workers`=2; got 2"),
    ],
)
def test_refuses_places_that_do_not_exist(make_cache, pairs, documents, arguments, message):
    batches = make_batches("pairs", make_cache, pairs, documents)
    with pytest.raises(ValueError, match=message):
        batches.dataset(**arguments)


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, None])
def test_refuses_seeds_that_are_none(make_cache, pairs, documents, seed):
    with pytest.raises(ValueError, match="`seed` must be"):
        make_batches("pairs", make_cache, pairs, documents, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_refuses_a_cache_of_other_columns(make_cache, pairs, documents, kind):
    other = make_cache(documents, columns=("text",)) if kind == "pairs" else make_cache(pairs)
    with pytest.raises(ValueError, match=r"need a cache with the columns \(.*\); got \("):
        make_batches(kind, lambda examples, columns=None: other, pairs, documents)


def test_fit_takes_the_dataset_as_it_is(batches):
    """Any loss that leaves out padding sees the same tokens in every epoch."""
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


def test_refuses_parts_of_workers_that_do_not_exist(make_cache, pairs, documents):
    batches = make_batches("pairs", make_cache, pairs, documents)
    with pytest.raises(ValueError, match="`worker` must be below `workers`=2; got 5"):
        batches.part(0, 0, worker=5, workers=2)
    with pytest.raises(ValueError, match=r"`start` must be an epoch and a number.*; got 5"):
        batches.dataset(start=5)


def test_a_sampler_of_another_vocabulary_is_noticed(make_cache, pairs):
    cache = make_cache(pairs, keep_text=True)
    table = choose_buckets(cache, tokens=512, room=1.5)

    def other(strings, seed):
        return tf.ragged.constant([[1999]] * len(strings), dtype=tf.int32)

    batches = PairBatches(cache, table, seed=1, samplers={"target": other})
    with pytest.raises(ValueError, match="sampler of column 'target' must give ids from 1 to 259"):
        batches.batch(0, 0)


def test_the_end_of_a_dataset_waits_for_no_tuner(batches):
    """TensorFlow's tuner sleeps ever longer, and an iterator that ends waits until it wakes."""
    assert batches.dataset().options().autotune.enabled is False
