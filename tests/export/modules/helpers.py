"""Settings and shortcuts for the tests of text modules."""

import numpy as np
import tensorflow as tf

from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.saved_model_file import read_meta_graph

SMALL = {"hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "max_length": 32}


def translate(functions, texts, signature="serving_default"):
    """Returns texts and scores of a signature, as arrays."""
    found = functions[signature](text=tf.constant(texts, tf.string))
    return found["text"].numpy(), found["score"].numpy()


def reloaded(module, directory, *names):
    """Returns a module that was saved with some of its signatures; all operations are core.

    `export_model` saves it alike, but compares all signatures in a clean process, which takes
    seconds.
    """
    concrete = {name: module.functions[name].concrete for name in names}
    tf.saved_model.save(module, str(directory), signatures=concrete)
    assert check_ops(directory, read_meta_graph(directory)).outside_core == []
    return tf.saved_model.load(str(directory))


def assert_same(found, expected):
    """Compares outputs by name: strings exactly, numbers approximately."""
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if value.dtype == tf.string:
            assert found[key].numpy().tolist() == value.numpy().tolist(), key
        else:
            np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-4, err_msg=key)
