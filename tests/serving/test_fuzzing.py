"""Made-up requests: each has one of the defined answers, and the server lives."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.serving.test_grpc import open_channel

PREDICT = "/v1/models/small:predict"
# No other status may be the answer to a request, however wrong.
STATUSES = {200, 400, 404, 405, 413, 415, 501}
CODES = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNKNOWN", "UNIMPLEMENTED"}

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars | st.builds(lambda text: {"b64": text}, st.text(max_size=8)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["text", "source", "target", "seed", "x"]), inner)
    ),
    max_leaves=8,
)
names = st.sampled_from(["encode", "sample", "score", "attention", "n_best", "", "other"]) | scalars
bodies = st.fixed_dictionaries(
    {}, optional={"instances": values, "inputs": values, "signature_name": names}
)


@pytest.fixture(scope="module")
def channel(server):
    with open_channel(server) as channel:
        yield channel


def check(server, answer):
    assert answer.status in STATUSES, answer.body
    if answer.status == 200:
        assert answer.json.keys() <= {"predictions", "outputs"}
    else:
        assert answer.error
    assert server.get("/healthz").status == 200


@hypothesis.settings(max_examples=150)
@hypothesis.given(body=bodies)
def test_any_json_has_a_defined_answer(server, body):
    check(server, server.post(PREDICT, json.dumps(body).encode("utf-8", "surrogatepass")))


@hypothesis.settings(max_examples=60)
@hypothesis.given(data=st.data())
def test_any_damaged_body_has_a_defined_answer(server, data):
    body = bytearray(
        b'{"signature_name": "encode", "instances": [{"text": "gr\xc3\xbc\xc3\x9fe"}]}'
    )
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    check(server, server.post(PREDICT, bytes(body)))


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"]),
    path=st.text(st.sampled_from("v1/models:predictsall%2e0.-?#~"), max_size=40),
)
def test_any_path_has_a_defined_answer(server, method, path):
    answer = server.call(method, f"/v1/models/small{path}", b"{}")
    assert answer.status in STATUSES


@hypothesis.settings(max_examples=60)
@hypothesis.given(message=st.binary(max_size=60))
def test_any_bytes_have_a_defined_answer_by_grpc(server, channel, message):
    call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    assert call.future(message, timeout=30).code().name in CODES
    assert server.get("/healthz").status == 200
