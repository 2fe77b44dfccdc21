"""The warm-up file, read with the protobufs of TensorFlow Serving."""

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.export.formats.saved_model import WARMUP, write_warmup_requests
from tests.export.small_export import INPUTS


def read_logs(directory):
    records = tf.data.TFRecordDataset(str(directory / WARMUP))
    return [
        prediction_log_pb2.PredictionLog.FromString(record)
        for record in records.as_numpy_iterator()
    ]


def test_warmup_requests_have_the_dtypes_of_their_arrays(export):
    numbers = {"temperature": np.array(1, "float32"), "seed": np.array(3, "int32")}
    write_warmup_requests(
        export,
        [
            ("serving_default", {"text": ["guten", "", "grüße" * 100]}),
            ("sample", {"text": np.array([b"\xff"], object), **numbers}),
            ("encode", {"text": np.array([], "S")}),
        ],
    )
    requests = [log.predict_log.request for log in read_logs(export)]
    assert [log.WhichOneof("log_type") for log in read_logs(export)] == ["predict_log"] * 3
    names = [request.model_spec.signature_name for request in requests]
    assert names == ["serving_default", "sample", "encode"]
    assert tf.make_ndarray(requests[0].inputs["text"]).tolist() == [
        b"guten",
        b"",
        ("grüße" * 100).encode(),
    ]
    sample = {key: tf.make_ndarray(value) for key, value in requests[1].inputs.items()}
    assert sample["text"].tolist() == [b"\xff"]
    assert (sample["temperature"].dtype, sample["temperature"].shape) == (np.float32, ())
    assert (sample["seed"].dtype, sample["seed"]) == (np.int32, 3)
    assert tf.make_ndarray(requests[2].inputs["text"]).shape == (0,)
    # There are no unknown fields.
    for log in read_logs(export):
        assert log.SerializeToString(deterministic=True)
        log.DiscardUnknownFields()
        assert log.ByteSize() > 0


def test_warmup_requests_of_the_small_export_are_its_golden_inputs(written_export):
    requests = [log.predict_log.request for log in read_logs(written_export)]
    assert [request.model_spec.signature_name for request in requests] == list(INPUTS)
    for request in requests:
        assert request.inputs.keys() == INPUTS[request.model_spec.signature_name].keys()


def test_warmup_bytes_equal_those_of_the_protobufs(export):
    write_warmup_requests(export, [("encode", {"text": ["x" * 200]})])
    (record,) = tf.data.TFRecordDataset(str(export / WARMUP)).as_numpy_iterator()
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = "encode"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(["x" * 200]))
    assert record == log.SerializeToString()
