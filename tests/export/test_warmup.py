"""The warm-up file, read with the protobufs of TensorFlow Serving."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.export.warmup import WARMUP, write_warmup_requests
from tests.export.small_export import INPUTS


def read_logs(directory):
    records = tf.data.TFRecordDataset(str(directory / WARMUP))
    return [
        prediction_log_pb2.PredictionLog.FromString(record)
        for record in records.as_numpy_iterator()
    ]


def test_warmup_requests_have_the_dtypes_of_the_signatures(export):
    write_warmup_requests(
        export,
        [
            ("serving_default", {"text": ["guten", "", "grüße" * 100]}),
            ("sample", {"text": np.array([b"\xff"]), "temperature": 1, "seed": np.int64(3)}),
            ("encode", {"text": tf.constant([], tf.string)}),
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


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("translate", {"text": ["a"]}), "No signature 'translate' to warm up; found attention, "),
        (("encode", {"texts": ["a"]}), "The inputs of encode are text; got texts."),
        (("encode", {}), "The inputs of encode are text; got ."),
        (("encode", {"text": "a"}), r"Input 'text' of encode must have 1 axes; got the shape \(\)"),
    ],
)
def test_warmup_request_that_would_fail_raises_an_error(export, request_, message):
    with pytest.raises(ValueError, match=message):
        write_warmup_requests(export, [request_])


def test_too_many_warmup_requests_raise_an_error(export):
    with pytest.raises(ValueError, match="At most 1000 requests can warm up; got 1001"):
        write_warmup_requests(export, [("encode", {"text": ["a"]})] * 1001)
