"""Warm-up requests, which TensorFlow Serving runs when it loads an export.

https://www.tensorflow.org/tfx/serving/saved_model_warmup: a TFRecord file of `PredictionLog`. Only
four of its fields are needed, so they are written here without the package tensorflow-serving-api;
the tests read them with that package.
"""

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.export.signatures import signatures_of

WARMUP = "assets.extra/tf_serving_warmup_requests"

#: TensorFlow Serving refuses a file with more requests.
MAXIMUM_REQUESTS = 1000

# Field numbers, from prediction_log.proto, predict.proto and model.proto.
_LOG_PREDICT = 6
_PREDICT_REQUEST = 1
_REQUEST_MODEL, _REQUEST_INPUTS = 1, 2
_MODEL_SIGNATURE = 3
_ENTRY_NAME, _ENTRY_TENSOR = 1, 2


def write_warmup_requests(
    directory: str | os.PathLike[str], requests: Iterable[tuple[str, Mapping[str, Any]]]
) -> None:
    """Writes the warm-up file of an export whose `saved_model.pb` exists.

    TensorFlow Serving does not load a model if a request fails. Each request must therefore have
    the inputs of its signature; they are converted to the dtypes of the signature.

    Args:
        directory: directory of the export.
        requests: pairs of a signature's name and its inputs, arrays or lists by name.
    """
    directory, requests = pathlib.Path(directory), list(requests)
    if len(requests) > MAXIMUM_REQUESTS:
        raise UserError(f"At most {MAXIMUM_REQUESTS} requests can warm up; got {len(requests)}.")
    signatures = signatures_of(read_meta_graph(directory))
    records = [_prediction_log(signatures, name, inputs) for name, inputs in requests]
    path = directory / WARMUP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def _prediction_log(signatures: dict[str, Any], name: str, inputs: Mapping[str, Any]) -> bytes:
    if name not in signatures:
        raise UserError(f"No signature {name!r} to warm up; found {', '.join(signatures)}.")
    wanted = signatures[name].inputs
    if inputs.keys() != wanted.keys():
        raise UserError(
            f"The inputs of {name} are {', '.join(sorted(wanted))}; got {', '.join(inputs)}."
        )
    request = _field(_REQUEST_MODEL, _field(_MODEL_SIGNATURE, name.encode()))
    for key, value in inputs.items():
        tensor = tf.make_tensor_proto(np.asarray(value), dtype=wanted[key].dtype)
        rank = len(wanted[key].tensor_shape.dim)
        if len(tensor.tensor_shape.dim) != rank:
            raise UserError(
                f"Input {key!r} of {name} must have {rank} axes; got the shape {np.shape(value)}."
            )
        entry = _field(_ENTRY_NAME, key.encode())
        entry += _field(_ENTRY_TENSOR, tensor.SerializeToString())
        request += _field(_REQUEST_INPUTS, entry)
    return _field(_LOG_PREDICT, _field(_PREDICT_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of bytes, text or a message: number and type 2, length, content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Returns a number in groups of seven bits, the lowest group first.

    >>> _varint(300)
    b'\\xac\\x02'
    """
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
