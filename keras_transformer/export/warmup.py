"""Requests that TensorFlow Serving runs when it loads an export, so that no user waits for them.

https://www.tensorflow.org/tfx/serving/saved_model_warmup: a TFRecord file of `PredictionLog`. Its
protobufs are in the package tensorflow-serving-api, for the sake of four fields. They are written
here by hand; the tests read them with that package.
"""

import pathlib

import numpy as np
import tensorflow as tf

from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.export.signatures import signatures_of

WARMUP = "assets.extra/tf_serving_warmup_requests"

#: TensorFlow Serving refuses a file with more.
MOST_REQUESTS = 1000

# Field numbers, from prediction_log.proto, predict.proto and model.proto.
_LOG_PREDICT = 6
_PREDICT_REQUEST = 1
_REQUEST_MODEL, _REQUEST_INPUTS = 1, 2
_MODEL_SIGNATURE = 3
_ENTRY_NAME, _ENTRY_TENSOR = 1, 2


def write_warmup_requests(directory, requests):
    """Writes the warm-up file of the export in `directory`, whose `saved_model.pb` is there.

    A request that fails keeps TensorFlow Serving from loading the model. So the inputs are those of
    the signature, each in its dtype, or this is a `ValueError`.

    Args:
        directory: of the export.
        requests: a list of (signature, {input: array or list}).
    """
    directory = pathlib.Path(directory)
    if len(requests) > MOST_REQUESTS:
        raise ValueError(f"At most {MOST_REQUESTS} requests can warm up; got {len(requests)}.")
    signatures = signatures_of(read_meta_graph(directory))
    records = [_prediction_log(signatures, name, inputs) for name, inputs in requests]
    path = directory / WARMUP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def _prediction_log(signatures, name, inputs):
    if name not in signatures:
        raise ValueError(f"No signature {name!r} to warm up; found {', '.join(signatures)}.")
    wanted = signatures[name].inputs
    if inputs.keys() != wanted.keys():
        raise ValueError(
            f"The inputs of {name} are {', '.join(sorted(wanted))}; got {', '.join(inputs)}."
        )
    request = _field(_REQUEST_MODEL, _field(_MODEL_SIGNATURE, name.encode()))
    for key, value in inputs.items():
        tensor = tf.make_tensor_proto(np.asarray(value), dtype=wanted[key].dtype)
        if len(tensor.tensor_shape.dim) != len(wanted[key].tensor_shape.dim):
            raise ValueError(f"Input {key!r} of {name} has other axes; got {np.shape(value)}.")
        entry = _field(_ENTRY_NAME, key.encode())
        entry += _field(_ENTRY_TENSOR, tensor.SerializeToString())
        request += _field(_REQUEST_INPUTS, entry)
    return _field(_LOG_PREDICT, _field(_PREDICT_REQUEST, request))


def _field(number, content):
    """A field of bytes, of text or of a message: its number and type 2, the length, the content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number):
    """A number in groups of seven bits, the lowest first.

    >>> _varint(300)
    b'\\xac\\x02'
    """
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
