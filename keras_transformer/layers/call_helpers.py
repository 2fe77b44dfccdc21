"""Helpers for the `call` methods of layers."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops
from tensorflow.python.ops import control_flow_util


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    """Returns the outputs of a layer, one or a tuple of several, as a tuple."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


def with_extras(outputs: Any, *extras: Any) -> Any:
    """Returns the outputs of a layer or, with further results that are not None, a tuple."""
    results = (outputs, *(each for each in extras if each is not None))
    return results if len(results) > 1 else outputs


def shape_of(tensor: Any) -> tuple[Any, ...]:
    """Returns the shape of a tensor: integers where it is known, else scalar tensors."""
    shape: Any = ops.shape(tensor)
    return tuple(shape)


def symbolic_like(tensors: Any) -> Any:
    """Returns symbolic Keras tensors with the shapes and types of a nest of tensors."""
    return keras.tree.map_structure(lambda each: keras.KerasTensor(each.shape, each.dtype), tensors)


def is_compiled_by_xla() -> bool:
    """Returns whether this code is traced for a `tf.function(jit_compile=True)`, at any depth.

    XLA needs shapes that stay the same; everywhere else, shapes that grow are faster.

    >>> is_compiled_by_xla()
    False
    """
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
