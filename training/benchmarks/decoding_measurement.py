"""Decoding, timed in this process with a SavedModel that another has written."""

import pathlib
import time

from training.benchmarks.bench_model import BENCH_MODELS
from training.benchmarks.rows import decoding_row
from training.benchmarks.stopwatch import Stopwatch
from training.benchmarks.training_measurement import versions
from training.benchmarks.workload import BUCKETS, Workload, padded

#: Every sentence is made to come out so long, whatever the weights say, so that all contenders do
#: the same work: the peers' PEER_FORCE.
FORCED_LENGTH = 16
#: What goes in and comes out: token ids, as with the peers, or strings, as with users.
KINDS = ("ids", "strings")
# Longer sentences are cut, which those of Multi30k never are.
_MAX_LENGTH = 64
# As with the peers, so many batches warm up a search that is not compiled.
_WARM_UP_BATCHES = 3


def write_decoder(directory, *, config, kind, beams, xla, data=None, model=None):
    """Writes a model with its search as a SavedModel, for `measure_decoding`.

    Args:
        directory: where to. For strings, that of all versions of an export.
        config: the name of a `BenchModel`.
        kind: "ids" or "strings".
        beams: 1 for greedy search.
        xla: whether XLA compiles the search.
        data: the directory of the `Workload`, of whose text a vocabulary is learned for strings.
        model: a `BenchModel` that stands in for the one of `config`.
    """
    model = model or BENCH_MODELS[config]
    if kind == "ids":
        _save_search(model.make(_MAX_LENGTH), _make_search(beams), directory, xla)
    else:
        _export(model, _make_search(beams), directory, xla, Workload(data))


def measure_decoding(
    directory, *, config, kind, beams, xla, batch_size, limit, repeats, threads, data=None
):
    """Times a SavedModel of `write_decoder` and returns the row of JSON.

    Args:
        directory: that of the SavedModel.
        config, kind, beams, xla: what it is.
        batch_size: sentences at once.
        limit: how many sentences to decode; None for all.
        repeats: how often.
        threads: how many threads TensorFlow has.
        data: the directory of the `Workload`.
    """
    workload = Workload(data)
    if kind == "ids":
        batches = workload.test_batches(batch_size, limit)
        translate = open_ids(directory, batch_size if xla else None)
    else:
        batches = workload.test_texts(batch_size, limit)
        translate = open_strings(directory)
    start = time.perf_counter()
    stride = 1 if xla else max(1, len(batches) // _WARM_UP_BATCHES)  # XLA compiles every shape
    for rows in batches[::stride]:
        translate(rows)
    warm_up = time.perf_counter() - start
    watches = [Stopwatch(threads) for _ in range(repeats)]
    for watch in watches:
        with watch:
            for rows in batches:
                translate(rows)
    sentences = sum(map(len, batches))
    name = "keras_transformer " + ("xla" if xla else "plain")
    return decoding_row(
        name if kind == "ids" else f"{name} strings",
        config,
        batch_size,
        beams,
        sentences,
        sentences * FORCED_LENGTH,
        watches,
        warm_up,
        forced_len=FORCED_LENGTH,
        **versions(),
    )


def open_ids(directory, rows_at_once=None):
    """A function from lists of ids to lists of ids.

    Args:
        directory: of the SavedModel.
        rows_at_once: pads to so many rows and to the width of a bucket, for XLA, which compiles
            every shape. None pads to the longest row.
    """
    import tensorflow as tf

    loaded = tf.saved_model.load(str(directory))
    signature = loaded.signatures["serving_default"]

    def translate(rows):
        longest = max(map(len, rows))
        if rows_at_once is None:
            ids = padded(rows, longest)
        else:
            width = next((width for width in BUCKETS if width >= longest), longest)
            # Rows of the last one again, so that no row is empty.
            ids = padded([*rows, *[rows[-1]] * (rows_at_once - len(rows))], width)
        return signature(ids=tf.constant(ids))["ids"].numpy()[: len(rows)].tolist()

    # The signature lives as long as what was loaded does.
    translate.owner = loaded
    return translate


def open_strings(directory):
    """A function from lists of strings to lists of strings, of an export."""
    import numpy as np
    import tensorflow as tf

    from keras_transformer.export import open_text_model

    signature = open_text_model(pathlib.Path(directory)).signatures["serving_default"]

    def translate(texts):
        encoded = np.array([text.encode() for text in texts], object)
        return signature(text=tf.constant(encoded))["text"].numpy().tolist()

    return translate


def _make_search(beams):
    from keras_transformer.decoding import BeamSearch, GreedySearch, LengthLimits

    lengths = LengthLimits(maximum=FORCED_LENGTH, maximum_ratio=None, minimum=FORCED_LENGTH)
    return GreedySearch(lengths=lengths) if beams == 1 else BeamSearch(beams=beams, lengths=lengths)


def _save_search(network, search, directory, xla):
    import tensorflow as tf

    from keras_transformer.export.text_module import stored_weights

    module = tf.Module()
    # As plain variables: a SavedModel that tracks Keras' own objects loads in Python alone.
    module.stored = [weight.value for weight in network.weights]

    def find(ids):
        with stored_weights(network, module.stored, as_constants=xla):
            return search(network, source=ids).ids[:, 0]

    find = tf.function(find, jit_compile=xla, autograph=False)

    def best(ids):
        return {"ids": find(ids)}

    module.best = tf.function(
        best, input_signature=[tf.TensorSpec([None, None], tf.int32, "ids")], autograph=False
    )
    tf.saved_model.save(module, str(directory), signatures={"serving_default": module.best})


def _export(model, search, directory, xla, workload):
    from keras_transformer.export import TextLimits, TrainedModel, export_model
    from keras_transformer.text import TokenizerPair, learn_tokenizer

    lines, _ = workload.texts()
    tokenizer = learn_tokenizer(
        "sentencepiece", lines, model.vocabulary_size, model="bpe", progress=lambda *_: None
    )
    trained = TrainedModel(model.make(_MAX_LENGTH), TokenizerPair(tokenizer))
    export_model(trained, directory, search=search, limits=TextLimits(tokens=_MAX_LENGTH), xla=xla)
