"""Conversion between the tensors of gRPC requests and arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.serving.errors import invalid
from keras_transformer.serving.messages import tensor_pb2
from keras_transformer.serving.servable import Arrays, ServedSignature

# Field of `TensorProto` that holds the values of a dtype.
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "string": "string_val",
    **dict.fromkeys(("int8", "uint8", "int16", "int32"), "int_val"),
}
# A few bytes can describe a tensor of any size, all of whose values are equal.
_MAXIMUM_VALUES = 1 << 22


def inputs_from_proto(tensors: Mapping[str, Any], signature: ServedSignature) -> Arrays:
    """Returns the arrays of a request's tensors; a `RequestError` if one is wrong.

    Args:
        tensors: a `TensorProto` for each input, by name.
        signature: the signature, whose dtypes the tensors must have.
    """
    inputs = {}
    for name, tensor in tensors.items():
        spec = signature.inputs.get(name)
        if spec is not None and tensor.dtype != tf.as_dtype(spec.dtype).as_datatype_enum:
            got = tf.dtypes.DType(tensor.dtype).name if tensor.dtype in _known() else tensor.dtype
            raise invalid(f"input {name!r} of {signature.name} must be {spec.dtype}, not {got}.")
        inputs[name] = array_from_proto(name, tensor)
    return inputs


def array_from_proto(name: str, tensor: Any) -> np.ndarray:
    """Returns the array of a `TensorProto`.

    Args:
        name: name of the input, for messages.
        tensor: the `TensorProto`.
    """
    sizes = [axis.size for axis in tensor.tensor_shape.dim]
    total = int(np.prod(sizes, dtype=object)) if sizes else 1
    if tensor.tensor_shape.unknown_rank or any(size < 0 for size in sizes):
        raise invalid(f"input {name!r} has no complete shape.")
    if total > _MAXIMUM_VALUES:
        raise invalid(f"input {name!r} has {total} values; at most {_MAXIMUM_VALUES} are allowed.")
    try:
        return tf.make_ndarray(tensor)
    except (ValueError, TypeError) as error:
        raise invalid(f"input {name!r} is not a valid tensor: {error}") from error


def proto_from_array(array: np.ndarray, dtype: str) -> Any:
    """Returns the `TensorProto` of an array, with one field a value as TensorFlow Serving writes.

    Args:
        array: the array.
        dtype: name of its dtype, a key of the fields.

    >>> proto_from_array(np.array([0.5], np.float32), "float32").float_val
    [0.5]
    """
    proto = tensor_pb2.TensorProto(dtype=tf.as_dtype(dtype).as_datatype_enum)
    proto.tensor_shape.SetInParent()
    for size in np.shape(array):
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, _FIELDS[dtype]).extend(np.ravel(array).tolist())
    return proto


def _known() -> set[int]:
    return {tf.as_dtype(name).as_datatype_enum for name in _FIELDS}
