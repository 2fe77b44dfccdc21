"""Exports whose answers a browser must not run: they echo texts, and their labels are HTML."""

import numpy as np
import tensorflow as tf

from keras_transformer.export.formats.saved_model import write_warmup_requests
from keras_transformer.export.golden import make_golden_pair
from keras_transformer.export.manifest import write_manifest
from tests.export.small_export import (
    SOURCES,
    TARGETS,
    TEXTS,
    SmallModel,
    manifest_content,
    save_module,
    write_export,
)

#: HTML that would set `window.ran`, in each of the ways in which a page runs it.
ATTACK = (
    "<script>window.ran=1</script><img src=x onerror=window.ran=1>"
    '<svg onload=window.ran=1><a href="javascript:window.ran=1">x</a><b>bold</b>'
)
LABELS = ("good", f"bad {ATTACK}")


class WordModel(SmallModel):
    """A model whose best text is in upper case, and whose tokens are words."""

    @tf.function(input_signature=[TEXTS])
    def n_best(self, text):
        upper = tf.strings.upper(text)
        texts = tf.stack([upper, text, upper], axis=1)
        missing = tf.fill(tf.shape(text), -np.inf)
        return {"text": texts, "score": tf.stack([self.score_of(text), missing - 0.0, missing], 1)}

    @tf.function(input_signature=[SOURCES, TARGETS])
    def attention(self, source, target):
        sources = tf.strings.split(source).to_tensor("")
        targets = tf.strings.split(target).to_tensor("")
        rows = tf.range(tf.shape(targets)[1])[:, tf.newaxis]
        columns = tf.range(tf.shape(sources)[1])[tf.newaxis, :]
        distances = tf.cast(tf.abs(rows - columns), tf.float32)
        weights = tf.nn.softmax(-distances, axis=-1)[tf.newaxis]
        weights = tf.tile(weights, [tf.shape(source)[0], 1, 1])
        return {"source_tokens": sources, "target_tokens": targets, "weights": weights}


class Classifier(tf.Module):
    """A text encoder that finds texts with an exclamation mark bad."""

    @tf.function(input_signature=[TEXTS])
    def encode(self, text):
        length = tf.cast(tf.strings.length(text), tf.float32)
        return {"embedding": tf.stack([length, tf.ones_like(length)], axis=1)}

    @tf.function(input_signature=[TEXTS])
    def classify(self, text):
        is_bad = tf.strings.regex_full_match(text, r"(?s).*!.*")
        bad = tf.where(is_bad, 0.75, 0.125)
        label = tf.where(is_bad, LABELS[1], LABELS[0])
        return {"label": label, "probabilities": tf.stack([1.0 - bad, bad], axis=1)}


def write_word_export(directory, kind="Transformer"):
    """Writes an export of a `WordModel`, and returns its directory."""
    return write_export(WordModel(), directory, kind=kind)


def write_classifier_export(directory):
    """Writes an export of a `Classifier`, and returns its directory."""
    model = Classifier()
    functions = {
        "serving_default": model.encode,
        "encode": model.encode,
        "classify": model.classify,
    }
    texts = {"text": ["guten", "nacht"]}
    tensors = {"text": tf.constant(texts["text"])}
    save_module(model, directory, functions)
    write_warmup_requests(directory, [(name, texts) for name in functions])
    golden = [make_golden_pair(name, tensors, each(**tensors)) for name, each in functions.items()]
    write_manifest(directory, manifest_content(golden, kind="TextEncoder"))
    return directory
