"""A SavedModel with the signatures of an export, made with plain TensorFlow, for tests to damage.

It converts texts to upper case, and looks words up in a vocabulary in its graph.
"""

import pathlib

import numpy as np
import tensorflow as tf

from keras_transformer import __version__
from keras_transformer.export.formats.saved_model import write_warmup_requests
from keras_transformer.export.golden import make_golden_pair
from keras_transformer.export.manifest import write_manifest

VOCABULARY = ("guten", "morgen", "abendessen", "nacht")
TEXTS = tf.TensorSpec([None], tf.string, name="text")
SOURCES = tf.TensorSpec([None], tf.string, name="source")
TARGETS = tf.TensorSpec([None], tf.string, name="target")


class SmallModel(tf.Module):
    """A module with the signatures that every export has, and one variable of `rows` rows."""

    def __init__(self, rows=4):
        super().__init__()
        self.embedding = tf.Variable(
            np.arange(rows * 3, dtype=np.float32).reshape(rows, 3), name="embedding"
        )

    def rows_of(self, texts):
        """Returns the index of each text in the vocabulary, or the last one: int32 [B]."""
        is_word = texts[:, tf.newaxis] == tf.constant(VOCABULARY)
        is_word = tf.concat([is_word[:, :-1], tf.ones_like(is_word[:, :1])], axis=1)
        return tf.argmax(is_word, axis=1, output_type=tf.int32)

    def score_of(self, texts):
        return -tf.reduce_sum(self.embedded(texts), axis=1) / 7.0

    def embedded(self, texts):
        return tf.gather(self.embedding.read_value(), self.rows_of(texts))

    @tf.function(input_signature=[TEXTS])
    def serving_default(self, text):
        return {"text": tf.strings.upper(text), "score": self.score_of(text)}

    @tf.function(input_signature=[TEXTS])
    def n_best(self, text):
        texts = tf.stack([tf.strings.upper(text), text], axis=1)
        score = self.score_of(text)
        return {"text": texts, "score": tf.stack([score, score - 1.0], axis=1)}

    @tf.function(
        input_signature=[
            TEXTS,
            tf.TensorSpec([], tf.float32, name="temperature"),
            tf.TensorSpec([], tf.int32, name="seed"),
        ]
    )
    def sample(self, text, temperature, seed):
        noise = tf.sin(tf.cast(seed, tf.float32))
        return {"text": tf.strings.upper(text), "score": self.score_of(text) + noise * temperature}

    @tf.function(input_signature=[SOURCES, TARGETS])
    def score(self, source, target):
        return {"log_probability": self.score_of(source), "tokens": tf.strings.length(target)}

    @tf.function(input_signature=[SOURCES, TARGETS])
    def attention(self, source, target):
        sources, targets = source[:, tf.newaxis], target[:, tf.newaxis]
        weights = tf.ones([tf.shape(source)[0], 1, 1])
        return {"source_tokens": sources, "target_tokens": targets, "weights": weights}

    @tf.function(input_signature=[TEXTS])
    def encode(self, text):
        return {"embedding": self.embedded(text)}


# The contract of every export of a model that writes text; a newer one may have more.
NAMES = ("serving_default", "n_best", "sample", "score", "attention", "encode")
INPUTS = {
    "serving_default": {"text": ["guten", "", "grüße"]},
    "n_best": {"text": ["morgen"]},
    "sample": {"text": ["nacht"], "temperature": np.float32(0.5), "seed": np.int32(7)},
    "score": {"source": ["guten", "nacht"], "target": ["good", "night"]},
    "attention": {"source": ["abendessen"], "target": [b"\xff dinner"]},
    "encode": {"text": ["morgen", "nacht"]},
}


def golden_pairs(model, names):
    """Returns the answers of the model in memory to `INPUTS`, in the form of the manifest."""
    pairs = []
    for name in names:
        tensors = {key: tf.constant(value) for key, value in INPUTS[name].items()}
        pairs.append(make_golden_pair(name, tensors, getattr(model, name)(**tensors)))
    return pairs


def manifest_content(golden, **changes):
    """Returns the content of a manifest of this TensorFlow and this package."""
    return {
        "name": "small",
        "version": 1,
        "created_with": {
            "keras_transformer": __version__,
            "tensorflow": tf.__version__,
            "keras": "3.15.1",
            "tensorflow_text": None,
        },
        "kind": "Transformer",
        "model": {"rows": 4},
        "recipe": None,
        "tokenizers": None,
        "search": {"beams": 1},
        "weights": "float32",
        "xla": False,
        "limits": {"characters": 1000},
        "ops": {"outside_core": []},
        "quality": {"bleu": 31.5},
        "golden": golden,
        **changes,
    }


def save_module(module, directory, signatures):
    """Saves a `tf.Module` as TensorFlow does, without a manifest."""
    tf.saved_model.save(module, str(directory), signatures=signatures)
    return pathlib.Path(directory)


def write_small_export(directory, rows=4, **changes):
    """Writes the whole export: SavedModel, warm-up requests and manifest."""
    return write_export(SmallModel(rows), directory, **changes)


def write_export(model, directory, **changes):
    """Writes the export of a model with the methods of a `SmallModel`."""
    directory = save_module(model, directory, {name: getattr(model, name) for name in NAMES})
    write_warmup_requests(directory, list(INPUTS.items()))
    write_manifest(directory, manifest_content(golden_pairs(model, NAMES), **changes))
    return directory
