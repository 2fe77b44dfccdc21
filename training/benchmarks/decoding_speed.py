"""Measurement of decoding with a SavedModel, from ids to ids or from strings to strings."""

import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from training.benchmarks.models import BENCH_MODELS, BenchModel
from training.benchmarks.timing import Row, decoding_row, time_repeats
from training.benchmarks.training_speed import time_warm_up, versions
from training.benchmarks.workload import BUCKETS, Workload, pad

if TYPE_CHECKING:
    import keras

    from keras_transformer.decoding import BeamSearch, GreedySearch

#: Number of tokens that every search generates, independent of the weights, so that all libraries
#: do the same work. The peers' scripts use the same number.
FORCED_LENGTH = 16
#: Inputs and outputs: token ids as with the peers, or strings as with users.
KINDS = ("ids", "strings")
# Longer sentences are cut. Multi30k has none.
_MAX_LENGTH = 64
# Number of batches that warm up a search that is not compiled by XLA, as in the peers' scripts.
_WARM_UP_BATCHES = 3


def write_decoder(
    directory: str | os.PathLike[str],
    *,
    config: str,
    kind: str,
    beams: int,
    xla: bool,
    data: str | os.PathLike[str] | None = None,
    model: BenchModel | None = None,
) -> None:
    """Writes a model with its search as a SavedModel, for `measure_decoding`.

    Args:
        directory: where the SavedModel is written; for strings, the parent of the version.
        config: name of a `BenchModel`.
        kind: "ids" or "strings".
        beams: beam size; 1 is greedy search.
        xla: whether XLA compiles the search.
        data: directory of the `Workload`, from whose text a vocabulary is learned for strings.
        model: dimensions to use in place of those of `config`.
    """
    model = model or BENCH_MODELS[config]
    if kind == "ids":
        _save_search(model.make(_MAX_LENGTH), _make_search(beams), directory, xla)
    else:
        _export(model, _make_search(beams), directory, xla, Workload(data))


def measure_decoding(
    directory: str | os.PathLike[str],
    *,
    config: str,
    kind: str,
    beams: int,
    xla: bool,
    batch_size: int,
    limit: int | None,
    repeats: int,
    threads: int,
    data: str | os.PathLike[str] | None = None,
) -> Row:
    """Measures a SavedModel of `write_decoder` in this process and returns the row.

    Args:
        directory: directory of the SavedModel.
        config: name of its `BenchModel`.
        kind: "ids" or "strings".
        beams: its beam size.
        xla: whether its search is compiled by XLA.
        batch_size: sentences per call.
        limit: number of sentences to decode. None: all.
        repeats: number of repeats.
        threads: number of threads of TensorFlow.
        data: directory of the `Workload`. Default: random ids.
    """
    workload = Workload(data)
    batches: list[Any]
    translate: Callable[[Any], list[Any]]
    if kind == "ids":
        batches = workload.test_batches(batch_size, limit)
        translate = open_ids(directory, batch_size if xla else None)
    else:
        batches = workload.test_texts(batch_size, limit)
        translate = open_strings(directory)
    stride = 1 if xla else max(1, len(batches) // _WARM_UP_BATCHES)  # XLA compiles every shape
    warm_up = time_warm_up(lambda: [translate(rows) for rows in batches[::stride]])
    watches = time_repeats(lambda: [translate(rows) for rows in batches], repeats, threads)
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


def open_ids(
    directory: str | os.PathLike[str], batch_size: int | None = None
) -> Callable[[list[Any]], list[list[int]]]:
    """Returns a function from lists of ids to lists of ids.

    Args:
        directory: directory of the SavedModel.
        batch_size: pads to so many rows and to the length of a bucket, for XLA, which compiles
            every shape. Default: pads to the longest row only.
    """
    import tensorflow as tf

    loaded = tf.saved_model.load(str(directory))

    def translate(rows: list[Any]) -> list[list[int]]:
        longest = max(map(len, rows))
        if batch_size is None:
            ids = pad(rows, longest)
        else:
            length = next((length for length in BUCKETS if length >= longest), longest)
            # The last row is repeated, so that no row is empty.
            ids = pad([*rows, *[rows[-1]] * (batch_size - len(rows))], length)
        # Refers to `loaded`, because a signature alone does not keep its variables alive.
        signature = loaded.signatures["serving_default"]
        return signature(ids=tf.constant(ids))["ids"].numpy()[: len(rows)].tolist()

    return translate


def open_strings(directory: str | os.PathLike[str]) -> Callable[[list[str]], list[bytes]]:
    """Returns a function from lists of strings to lists of strings, of an export."""
    import numpy as np
    import tensorflow as tf

    from keras_transformer.inference import load

    signature = load(pathlib.Path(directory)).signatures["serving_default"]

    def translate(texts: list[str]) -> list[bytes]:
        encoded = np.array([text.encode() for text in texts], object)
        return signature(text=tf.constant(encoded))["text"].numpy().tolist()

    return translate


def _make_search(beams: int) -> "GreedySearch | BeamSearch":
    from keras_transformer.decoding import BeamSearch, GreedySearch, LengthLimits

    lengths = LengthLimits(maximum=FORCED_LENGTH, maximum_ratio=None, minimum=FORCED_LENGTH)
    return GreedySearch(lengths=lengths) if beams == 1 else BeamSearch(beams=beams, lengths=lengths)


def _save_search(
    network: "keras.Model", search: Any, directory: str | os.PathLike[str], xla: bool
) -> None:
    import tensorflow as tf

    from keras_transformer.export.modules import stored_weights

    module = tf.Module()
    # Plain variables: a SavedModel that tracks Keras objects loads in Python only.
    module.stored = [weight.value for weight in network.weights]

    def find(ids: tf.Tensor) -> tf.Tensor:
        with stored_weights(network, module.stored, as_constants=xla):
            return search(network, source=ids).ids[:, 0]

    find = tf.function(find, jit_compile=xla, autograph=False)

    def generate(ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"ids": find(ids)}

    module.generate = tf.function(
        generate, input_signature=[tf.TensorSpec([None, None], tf.int32, "ids")], autograph=False
    )
    tf.saved_model.save(module, str(directory), signatures={"serving_default": module.generate})


def _export(
    model: BenchModel,
    search: Any,
    directory: str | os.PathLike[str],
    xla: bool,
    workload: Workload,
) -> None:
    from keras_transformer.export import TextLimits, TrainedModel, export_model
    from keras_transformer.text import TokenizerPair, learn_tokenizer

    lines, _ = workload.texts()
    tokenizer = learn_tokenizer(
        "sentencepiece", lines, model.vocabulary_size, model="bpe", progress=lambda *_: None
    )
    trained = TrainedModel(model.make(_MAX_LENGTH), TokenizerPair(tokenizer))
    export_model(trained, directory, search=search, limits=TextLimits(tokens=_MAX_LENGTH), xla=xla)
