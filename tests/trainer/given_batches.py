"""Batches given by tests, and a small model for them."""

import types

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import TokenCrossEntropy
from keras_transformer.data import Batches
from keras_transformer.text import SpecialIds

VOCABULARY = 12


class GivenBatches(Batches):
    """Batches of a list of inputs and labels, the same in every epoch."""

    columns = ()

    def __init__(self, batches):
        cache = types.SimpleNamespace(columns=self.columns, special_ids=SpecialIds())
        super().__init__(cache, seed=1)
        self.batches = batches

    @property
    def element_spec(self):
        return tf.nest.map_structure(
            lambda array: tf.TensorSpec([None] * array.ndim, array.dtype), self.batches[0]
        )

    @property
    def padding_values(self):
        return tf.nest.map_structure(lambda array: 0, self.batches[0])

    def __len__(self):
        return len(self.batches)

    def batch(self, epoch, number):
        return self.batches[number]

    def report(self):
        raise NotImplementedError

    def settings(self):
        return {}

    def _make_plan(self, epoch):
        raise NotImplementedError


def make_batch(seed, *lengths, width=None):
    """Returns inputs and labels with a row for each length, padded to a width."""
    random = np.random.default_rng(seed)
    shape = (len(lengths), width or max(lengths))
    inputs = random.integers(1, VOCABULARY - 2, shape).astype("int32")
    is_token = np.arange(shape[1]) < np.array(lengths)[:, None]
    return inputs * is_token, (inputs % 7 + 1).astype("int32") * is_token


def joined(batches):
    """Returns one batch with the rows of several, padded to the widest."""
    width = max(labels.shape[1] for _, labels in batches)

    def join(parts):
        return np.concatenate(
            [np.pad(part, [(0, 0), (0, width - part.shape[1])]) for part in parts]
        )

    return tuple(join(parts) for parts in zip(*batches, strict=True))


def make_model(optimizer, loss=None, dropout=0.0, dtype=None):
    """Returns a compiled model that sees one token at a time, with the same weights on every call.

    For an embedding of zeros, the square root has a finite loss and no finite gradient.
    """
    keras.utils.set_random_seed(3)
    usual = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype or usual)
    try:
        tokens = keras.Input([None], dtype="int32")
        vectors = keras.layers.Embedding(VOCABULARY, 8)(tokens)
        roots = keras.ops.sqrt(keras.ops.abs(vectors))
        hidden = keras.ops.concatenate([vectors, roots], axis=-1)
        hidden = keras.layers.Dense(16, "tanh")(hidden)
        hidden = keras.layers.Dropout(dropout, seed=5)(hidden)
        model = keras.Model(tokens, keras.layers.Dense(VOCABULARY)(hidden))
    finally:
        keras.config.set_dtype_policy(usual)
    model.compile(optimizer, loss or TokenCrossEntropy(0.1), jit_compile=False)
    return model
