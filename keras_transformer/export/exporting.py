"""From a trained model to a version directory that a server can load."""

import contextlib
import dataclasses
import importlib.metadata
import os
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import __version__
from keras_transformer._utils.checks import require_choice, require_integer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.golden import make_golden_pair, replay_golden_pairs
from keras_transformer.export.manifest import write_manifest
from keras_transformer.export.modules import make_text_module
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.export.versions import next_version, require_loadable
from keras_transformer.export.warmup import write_warmup_requests

#: Tried in every export beside the model's own examples: nothing, white space, one word, a sentence
#: in several scripts.
BUILT_IN_EXAMPLES = ("", " ", "A", "Two words, и ещё несколько – 三つ 🙂.")
WEIGHT_DTYPES = ("float32", "float16", "bfloat16")


def export_model(
    trained,
    directory,
    *,
    version=None,
    search=None,
    limits=None,
    weights="float32",
    xla=False,
    portable=False,
):
    """Writes a trained model as a SavedModel that takes strings and returns strings.

    The version directory appears complete, by a rename, after a clean process that imports
    TensorFlow and tensorflow-text alone has loaded it and given the same answers as the model in
    memory. If anything fails, nothing is left behind.

    Args:
        trained: a `TrainedModel`.
        directory: of all versions of this model, such as `saved_models/dates`; its name is the
            model's.
        version: a whole number, by default one more than the highest there is.
        search: how to search: a `BeamSearch`, a `GreedySearch` or `SearchSettings`.
        limits: a `TextLimits`, by default with the model's `max_length`, or as much as an attention
            mechanism that has an end can read.
        weights: the type in which they are stored: "float32", "float16" or "bfloat16". What that
            changes is measured and written into the manifest.
        xla: whether XLA compiles the searches: faster in the same process, but TensorFlow Serving
            does not load it by default.
        portable: whether to insist on a graph of core TensorFlow operations alone, which needs a
            tokenizer of bytes.

    Returns:
        The path of the version directory.
    """
    require_choice("weights", weights, WEIGHT_DTYPES)
    directory = _require_place(directory)
    if version is None:
        version = next_version(directory)
    path = directory / str(require_integer("version", version, 0))
    if os.path.lexists(path):  # known before any work
        raise UserError(f"{path}: exists already. Choose another version, or remove this one.")
    if portable:
        _require_portable(trained.tokenizers)

    settings = {"search": search, "limits": limits, "xla": xla}
    module = make_text_module(trained, **settings, stored_dtype=weights)
    requests = _requests(module, trained.examples)
    golden = _golden_pairs(module, requests)
    difference = None
    if weights != "float32":
        exact = make_text_module(trained, **settings)
        difference = _difference(_golden_pairs(exact, requests[:1]), golden)

    is_new = not directory.exists()
    try:
        with atomic_directory(path) as temporary:
            signatures = {name: function.concrete for name, function in module.functions.items()}
            tf.saved_model.save(module, os.fspath(temporary), signatures=signatures)
            # TensorFlow Serving refuses scalars when it batches, and to load if a request fails.
            batched = [request for request in requests if all(map(np.ndim, request[1].values()))]
            write_warmup_requests(temporary, batched)
            outside_core = check_ops(temporary, read_meta_graph(temporary)).outside_core
            if portable and outside_core:
                raise UserError(
                    "A portable export has core operations only; this one has "
                    f"{', '.join(outside_core)}."
                )
            content = {
                "name": path.absolute().parent.name,
                "version": version,
                **_described_model(trained, module, outside_core),
                "weights": {
                    "dtype": weights,
                    "parameters": int(sum(np.prod(v.shape) for v in module.stored)),
                    "difference": difference,
                },
                "xla": xla,
                "golden": golden,
            }
            write_manifest(temporary, content)
            _require_same_answers(temporary)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):  # if it holds something by now, it is not ours
                directory.rmdir()
        raise
    return path


def _require_place(directory):
    """The directory of all versions, if there can be one of that name."""
    path = pathlib.Path(os.path.abspath(directory))
    if not os.fspath(directory) or not path.name:
        raise UserError(f"{directory!s}: needs a name, such as saved_models/NAME.")
    for place in path.parents:
        if place.exists() and not place.is_dir():
            raise UserError(f"{place}: is not a directory. Choose another place for {path.name}.")
    return require_loadable(pathlib.Path(directory))


def _requests(module, examples):
    """A request for each signature: its name, and arrays by name."""
    texts = np.array([text.encode() for text in (*BUILT_IN_EXAMPLES, *examples)], object)
    requests = []
    for name, function in module.functions.items():
        inputs = {"text": texts}
        if "source" in function.inputs:
            # Of its own answers, so that a reader sees what the model thinks of them.
            answers = module.functions["serving_default"](text=tf.constant(texts))
            inputs = {"source": texts, "target": answers["text"].numpy()}
        if name == "sample":
            inputs |= {"temperature": np.float32(1), "seed": np.int32(1)}
        requests.append((name, inputs))
    return requests


def _golden_pairs(module, requests):
    """What the module in memory answers, for the manifest."""
    pairs = []
    for name, inputs in requests:
        tensors = {key: tf.constant(value) for key, value in inputs.items()}
        outputs = module.functions[name](**tensors)
        pairs.append(make_golden_pair(name, inputs, outputs))
    return pairs


def _difference(exact, stored):
    """How the first golden answers of stored weights differ from those of the exact weights."""
    exact, stored = exact[0]["outputs"], stored[0]["outputs"]
    if "text" not in exact:
        old, new = np.array(exact["embedding"]), np.array(stored["embedding"])
        return {"largest_difference_of_embeddings": float(np.max(np.abs(old - new)))}
    is_same = np.array(exact["text"], object) == np.array(stored["text"], object)
    scores = np.abs(np.array(exact["score"], float) - np.array(stored["score"], float))
    return {
        "texts": len(is_same),
        "texts_changed": int(np.sum(~is_same)),
        "largest_difference_of_scores": float(np.max(scores[is_same], initial=0.0)),
    }


def _require_portable(tokenizers):
    for tokenizer in (tokenizers.source, tokenizers.target):
        if tokenizer.registered_name != "bytes":
            raise UserError(
                "A portable export needs a tokenizer of bytes: the model was trained with a "
                f"{tokenizer.registered_name!r} tokenizer, whose operations are tensorflow-text's. "
                "Train with bytes, or export without this option."
            )


def _described_model(trained, module, outside_core):
    """What the manifest says of the model and of what it was made with."""
    return {
        "created_with": _versions(outside_core),
        "kind": type(trained.model).__name__,
        "model": dataclasses.asdict(trained.model.config),
        "recipe": trained.recipe,
        "quality": trained.quality,
        "tokenizers": _described_tokenizers(trained.tokenizers),
        "search": _described(getattr(module, "best", None)),
        "limits": dataclasses.asdict(module.limits),
        "ops": {"outside_core": list(outside_core)},
    }


def _versions(outside_core):
    return {
        "keras_transformer": __version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "tensorflow_text": (
            importlib.metadata.version("tensorflow-text") if outside_core else None
        ),
    }


def _described_tokenizers(tokenizers):
    return {
        side: {
            "kind": tokenizer.registered_name,
            "size": tokenizer.vocabulary_size,
            "hash": tokenizer.hash,
        }
        for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target))
    }


def _described(search):
    """A search's settings for JSON, or None."""
    if search is None:
        return None
    settings = dataclasses.asdict(search)
    controls = [
        {"kind": type(each).__name__, **dataclasses.asdict(each)} for each in search.controls
    ]
    return {"kind": type(search).__name__, **settings, "controls": controls}


def _require_same_answers(directory):
    for row in replay_golden_pairs(directory):
        if not row.ok:
            raise RuntimeError(
                f"The exported model answers otherwise than the one in memory: {row.difference}. "
                "Nothing was written."
            )
