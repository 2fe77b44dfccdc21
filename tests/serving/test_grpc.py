"""The gRPC interface of a running server."""

import contextlib
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import wrappers_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_transformer.serving import RequestLimits, find_models
from tests.serving.running import RunningServer


@contextlib.contextmanager
def open_channel(running):
    with grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}") as channel:
        yield channel


@pytest.fixture(scope="module")
def channel(server):
    with open_channel(server) as channel:
        yield channel


@pytest.fixture(scope="module")
def predictions(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def request_for(model="small", signature="", version=None, label=None, **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return request


def error_of(call, *arguments, **options):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, timeout=options.pop("timeout", 30), **options)
    return caught.value


def test_predict_answers_with_all_outputs_and_the_version(predictions):
    response = predictions.Predict(request_for(text=["guten", "nacht"]), timeout=30)
    assert tf.make_ndarray(response.outputs["text"]).tolist() == [b"GUTEN", b"NACHT"]
    # The values are in fields of their own, as other languages read them.
    assert list(response.outputs["text"].string_val) == [b"GUTEN", b"NACHT"]
    assert len(response.outputs["score"].float_val) == 2
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("small", 1, "serving_default")


def test_predict_answers_as_rest_does(server, predictions):
    words = ["guten", "", "grüße"]
    response = predictions.Predict(request_for(signature="encode", text=words), timeout=30)
    by_rest = server.predict({"signature_name": "encode", "instances": words}).json["predictions"]
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["embedding"]), by_rest)


def test_filter_chooses_outputs(predictions):
    request = request_for(text=["guten"])
    request.output_filter.append("score")
    assert list(predictions.Predict(request, timeout=30).outputs) == ["score"]
    request.output_filter.append("score")
    assert error_of(predictions.Predict, request).code() == grpc.StatusCode.INVALID_ARGUMENT
    request.output_filter[1] = "other"
    assert "other" in error_of(predictions.Predict, request).details()


@pytest.mark.parametrize(
    ("settings", "code", "fact"),
    [
        ({"model": "large"}, "NOT_FOUND", "Servable not found for request: Latest(large)"),
        ({"version": 2}, "NOT_FOUND", "Specific(small, 2)"),
        ({"version": -1}, "NOT_FOUND", "Specific(small, -1)"),
        ({"label": "stable"}, "INVALID_ARGUMENT", "label: stable"),
        ({"model": ""}, "INVALID_ARGUMENT", "no name"),
        ({"signature": "steal"}, "FAILED_PRECONDITION", '"steal" not found'),
        ({"text": [1, 2]}, "INVALID_ARGUMENT", "must be string"),
        ({"text": "scalar"}, "INVALID_ARGUMENT", "shape"),
        ({"text": [["a"]]}, "INVALID_ARGUMENT", "shape"),
        ({"more": ["a"]}, "INVALID_ARGUMENT", "more"),
        ({"signature": "score"}, "INVALID_ARGUMENT", "source"),
    ],
)
def test_wrong_call_has_the_code_of_tensorflow_serving(predictions, settings, code, fact):
    request = request_for(**{"text": ["a"], **settings})
    error = error_of(predictions.Predict, request)
    assert error.code().name == code
    assert fact in error.details()


def test_missing_input_is_refused(predictions):
    error = error_of(predictions.Predict, request_for())
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "text" in error.details()


@pytest.mark.parametrize(
    ("sizes", "values"), [((-1,), 1), ((2**40,), 1), ((2, 2**31, 2**31), 1), ((1,), 5)]
)
def test_tensor_whose_shape_does_not_fit_its_values_is_refused(predictions, sizes, values):
    request = request_for()
    tensor = request.inputs["text"]
    tensor.dtype = tf.string.as_datatype_enum
    for size in sizes:
        tensor.tensor_shape.dim.add(size=size)
    tensor.string_val.extend([b"a"] * values)
    assert error_of(predictions.Predict, request).code() == grpc.StatusCode.INVALID_ARGUMENT


def test_tensor_of_unknown_dtype_is_refused(predictions):
    request = request_for(text=["a"])
    for dtype in (0, 21, 99):
        request.inputs["text"].dtype = dtype
        assert error_of(predictions.Predict, request).code() == grpc.StatusCode.INVALID_ARGUMENT


def test_bytes_that_are_no_message_end_the_call_with_an_error(channel):
    call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    # gRPC's own answer; the server's code is not reached.
    assert error_of(call, b"\xff\xff\xff").code() == grpc.StatusCode.UNKNOWN


def test_message_beyond_the_limit_is_refused(predictions):
    error = error_of(predictions.Predict, request_for(text=["x" * (5 << 20)]))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_calls_without_an_implementation_say_so(predictions):
    request = classification_pb2.ClassificationRequest()
    assert error_of(predictions.Classify, request).code() == grpc.StatusCode.UNIMPLEMENTED


def test_metadata_holds_the_signatures(predictions):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "small"
    error = error_of(predictions.GetModelMetadata, request)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    request.metadata_field.append("signature_def")
    response = predictions.GetModelMetadata(request, timeout=30)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    assert "serving_default" in signatures.signature_def
    assert response.model_spec.version.value == 1
    request.metadata_field.append("other")
    assert "other" in error_of(predictions.GetModelMetadata, request).details()


def test_status_lists_the_versions(channel):
    stub = model_service_pb2_grpc.ModelServiceStub(channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    assert error_of(stub.GetModelStatus, request).code() == grpc.StatusCode.INVALID_ARGUMENT
    request.model_spec.name = "small"
    (status,) = stub.GetModelStatus(request, timeout=30).model_version_status
    assert (status.version, status.state, status.status.error_code) == (1, status.AVAILABLE, 0)
    request.model_spec.name = "large"
    assert error_of(stub.GetModelStatus, request).code() == grpc.StatusCode.NOT_FOUND


def health_call(channel, method="Check", kind="unary_unary"):
    return getattr(channel, kind)(
        f"/grpc.health.v1.Health/{method}",
        request_serializer=wrappers_pb2.StringValue.SerializeToString,
        response_deserializer=wrappers_pb2.UInt32Value.FromString,
    )


def test_health_of_known_services_is_serving(channel):
    check = health_call(channel)
    for service in ("", "tensorflow.serving.PredictionService"):
        assert check(wrappers_pb2.StringValue(value=service), timeout=30).value == 1
    error = error_of(check, wrappers_pb2.StringValue(value="other"))
    assert error.code() == grpc.StatusCode.NOT_FOUND


def test_health_can_be_watched(channel):
    watch = health_call(channel, "Watch", "unary_stream")
    answers = watch(wrappers_pb2.StringValue(), timeout=30)
    assert next(answers).value == 1
    answers.cancel()


def test_call_that_is_late_or_cancelled_ends_and_others_are_answered(written_export):
    sources = find_models(written_export.parent)
    limits = RequestLimits(seconds=0.3)
    with RunningServer(sources, limits=limits) as running, open_channel(running) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = request_for(text=["a"])
        stub.Predict(request, timeout=30)
        release = threading.Event()
        running.server.manager.workers._pool.submit(release.wait, 30)
        # The server's own limit, the client's, and a cancelled call.
        assert error_of(stub.Predict, request).code() == grpc.StatusCode.DEADLINE_EXCEEDED
        error = error_of(stub.Predict, request, timeout=0.05)
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        call = stub.Predict.future(request, timeout=30)
        call.cancel()
        assert call.code() == grpc.StatusCode.CANCELLED
        release.set()
        assert stub.Predict(request, timeout=30).outputs["text"].string_val[0] == b"A"
        deadline = time.monotonic() + 30
        while running.server.manager.batcher.waiting_rows and time.monotonic() < deadline:
            time.sleep(0.01)
        assert running.server.manager.batcher.waiting_rows == 0


def test_key_is_required_but_for_health(written_export):
    sources = find_models(written_export.parent)
    with RunningServer(sources, api_key="k" * 16) as running, open_channel(running) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = request_for(text=["a"])
        for metadata in ((), (("x-api-key", "wrong"),), (("authorization", "Bearer wrong"),)):
            error = error_of(stub.Predict, request, metadata=metadata)
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED
        for metadata in ((("x-api-key", "k" * 16),), (("authorization", "Bearer " + "k" * 16),)):
            assert stub.Predict(request, timeout=30, metadata=metadata).outputs
        assert health_call(channel)(wrappers_pb2.StringValue(), timeout=30).value == 1
