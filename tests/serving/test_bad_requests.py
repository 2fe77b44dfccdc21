"""Requests that nobody should send, and answers that must come nevertheless."""

import gzip
import json
import socket
import time

import pytest

from keras_transformer.serving import RequestLimits, find_models
from tests.serving.running import RunningServer

PREDICT = "/v1/models/small:predict"


@pytest.fixture(scope="module")
def strict(written_export):
    """A server with small limits."""
    limits = RequestLimits(
        body_bytes=20_000,
        rows=50,
        text_bytes=5_000,
        header_seconds=0.3,
        body_seconds=0.3,
        connections=60,
    )
    sources = find_models(written_export.parent)
    with RunningServer(sources, limits=limits, api_key="k" * 16) as running:
        yield running


KEY = {"X-API-Key": "k" * 16}


def sent_raw(server, data, seconds=10):
    """Returns all that the server sends for these bytes until it closes the connection."""
    with server.connect() as connection:
        connection.settimeout(seconds)
        connection.sendall(data)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", PREDICT),
        ("POST", "/v1/models/small"),
        ("DELETE", "/v1/models/small"),
        ("PUT", PREDICT),
        ("PATCH", PREDICT),
        ("OPTIONS", PREDICT),
        ("POST", "/v1/models/small/metadata"),
        ("POST", "/v1/models/small:steal"),
        ("POST", "/v1/models/small/version/1:predict"),
        ("POST", "/v1/models/small/versions/one:predict"),
        ("POST", "/v1/models/small/versions/1/labels/stable:predict"),
        ("POST", "/v1/models"),
        ("GET", "/v1/foo"),
        ("GET", "/v1/models/small:predict/metadata"),
        ("GET", f"/v1/models/small/versions/{2**64}"),
    ],
)
def test_malformed_request_is_a_json_error(server, method, path):
    answer = server.call(method, path, b"x" * 10_000)
    assert answer.status == 400
    assert answer.error


def test_status_without_a_model_is_a_json_error(server):
    assert server.get("/v1/models").error == "Missing model name in request."


@pytest.mark.parametrize("path", ["/", "/v2/models/small", "/admin", "/models/small", "//v1/"])
def test_unknown_path_is_not_found(server, path):
    answer = server.get(path + "nowhere")
    assert answer.status == 404
    assert answer.error


def test_other_method_for_a_page_is_not_allowed(server):
    for path in ("/metrics", "/healthz", "/models"):
        assert server.post(path, {}).status == 405


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/models/large:predict", "Latest(large)"),
        ("/v1/models/small/versions/2:predict", "Specific(small, 2)"),
        ("/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd:predict", "Latest(../../etc/passwd)"),
        ("/v1/models/a%0d%0aX-Evil%3a%20yes:predict", "Latest(a\r\nX-Evil: yes)"),
        ("/v1/models/%00%ff:predict", "Latest(\0\ufffd)"),
    ],
)
def test_unknown_model_or_version_is_not_found(server, path, asked):
    answer = server.post(path, {"instances": ["a"]})
    assert answer.status == 404
    assert answer.error == f"Servable not found for request: {asked}"
    assert "X-Evil" not in answer.headers


def test_unknown_label_is_refused(server):
    answer = server.post("/v1/models/small/labels/stable:predict", {"instances": ["a"]})
    assert (answer.status, answer.error) == (400, "Unrecognized servable version label: stable")


def test_status_of_unknown_model_or_version_is_not_found(server):
    assert server.get("/v1/models/large").error == "Could not find any versions of model large"
    answer = server.get("/v1/models/small/versions/2")
    assert (answer.status, answer.error) == (404, "Could not find version 2 of model small")
    assert server.get("/v1/models/large/metadata").status == 404


def test_unknown_signature_is_refused(server):
    answer = server.predict({"signature_name": "steal", "instances": ["a"]})
    assert answer.status == 400
    assert answer.error == 'Serving signature name: "steal" not found in signature def'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"\x00",
        b"\xff\xfe{\x00}\x00",
        b'{"instances": ["a"]',
        b'{"instances": []}',
        b'{"instances": ["\\ud800"]}',
        b'{"instances": ["\xff"]}',
        b'{"instances": [NaN]}',
        b'{"instances": [Infinity]}',
        b'{"instances": [%s]}' % (b"9" * 5000),
        b"[" * 100_000,
        b'{"instances": %s}' % (b"[" * 100_000 + b"]" * 100_000),
        b'{"instances": [null]}',
        b'{"instances": [5]}',
        b'{"instances": [true]}',
        b'{"instances": [["a"]]}',
        b'{"instances": ["a", ["b"]]}',
        b'{"instances": [{"txt": "a"}]}',
        b'{"instances": [{"text": "a", "more": "b"}]}',
        b'{"instances": [{"b64": "?"}]}',
        b'{"inputs": "a"}',
        b'{"inputs": {"text": "a"}}',
        b'{"inputs": {"text": [["a"]]}}',
        b'{"instances": ["a"], "inputs": ["a"]}',
        b'{"signature_name": "score", "inputs": {"source": ["a", "b"], "target": ["a"]}}',
        b'{"signature_name": "sample", "instances": [{"text": "a", "temperature": 1, "seed": 1}]}',
        b'{"signature_name": "sample", "inputs": {"text": ["a"], "temperature": [1], "seed": 1}}',
        b'{"signature_name": "sample", "inputs": {"text": ["a"], "temperature": 1, "seed": 1.5}}',
    ],
)
def test_wrong_body_is_a_json_error_and_the_server_lives(server, body):
    answer = server.predict(body)
    assert answer.status == 400
    assert answer.error
    assert server.predict({"instances": ["a"]}).json["predictions"][0]["text"] == "A"


def test_empty_column_is_answered_with_an_empty_column(server):
    assert server.predict({"inputs": []}).json == {"outputs": {"score": [], "text": []}}


def test_base64_is_accepted(server):
    assert server.predict({"instances": [{"b64": "Z3V0ZW4="}]}).json["predictions"][0]["text"] == (
        "GUTEN"
    )


@pytest.mark.parametrize("text", ["x" * 1_000_000, " ", "\0", "🙂" * 1000, "\u202eabc\u202c", ""])
def test_odd_text_has_the_same_answer_alone_and_in_a_batch(server, text):
    (alone,) = server.predict({"instances": [text]}).json["predictions"]
    both = server.predict({"instances": ["guten", text, "nacht"]}).json["predictions"]
    assert alone == both[1]
    assert alone["text"] == "".join(c.upper() if c.isascii() else c for c in text)


def test_request_with_more_rows_than_a_batch_is_answered_in_order(server):
    words = [f"text {number}" for number in range(1000)]
    answers = server.predict({"instances": words}).json["predictions"]
    assert [answer["text"] for answer in answers] == [word.upper() for word in words]


def test_too_many_rows_are_refused(server):
    answer = server.predict({"instances": ["a"] * 100_000})
    assert answer.status == 400
    assert "4096" in answer.error


def test_too_long_text_is_refused(strict):
    answer = strict.predict({"instances": ["a", "x" * 5001]}, **KEY)
    assert answer.status == 400
    assert "5000" in answer.error
    assert strict.predict({"instances": ["a", "x" * 5000]}, **KEY).status == 200


def test_body_beyond_the_limit_is_refused_before_it_is_read(strict):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY['X-API-Key']}\r\n"
    received = sent_raw(strict, f"{head}Content-Length: 99999999999999\r\n\r\nx".encode())
    assert received.startswith(b"HTTP/1.1 413 ")


def test_chunked_body_beyond_the_limit_is_refused(strict):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY['X-API-Key']}\r\n"
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    data = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + 3 * chunk
    assert sent_raw(strict, data).startswith(b"HTTP/1.1 413 ")


def test_body_shorter_than_it_says_is_refused_in_time(strict):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY['X-API-Key']}\r\n"
    received = sent_raw(strict, f"{head}Content-Length: 100\r\n\r\nx".encode())
    assert received.startswith(b"HTTP/1.1 408 ")


def test_gzip_body_is_accepted(server):
    answer = server.post_gzip(PREDICT, json.dumps({"instances": ["guten"]}).encode())
    assert answer.json["predictions"][0]["text"] == "GUTEN"


def test_gzip_bomb_is_refused(server):
    bomb = gzip.compress(b"\0" * 100_000_000, 1)
    answer = server.call("POST", PREDICT, bomb, {"Content-Encoding": "gzip"})
    assert answer.status == 413


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (b"no gzip", "gzip", 400),
        (gzip.compress(b'{"instances": ["a"]}')[:-4], "gzip", 400),
        (b"x", "br", 415),
        (b"x", "gzip, gzip", 415),
    ],
)
def test_wrong_encoding_of_a_body_is_refused(server, body, encoding, status):
    answer = server.call("POST", PREDICT, body, {"Content-Encoding": encoding})
    assert answer.status == status
    assert answer.error


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"G",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow:",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET " + b"x" * 100_000,
    ],
)
def test_slow_or_broken_head_ends_the_connection(strict, data):
    received = sent_raw(strict, data)
    assert received == b"" or received.startswith(b"HTTP/1.1 400 ")
    assert strict.get("/healthz").status == 200


def test_slow_head_of_a_second_request_ends_the_connection(strict):
    with strict.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHos")
        connection.settimeout(10)
        while connection.recv(65536):
            pass


def test_many_idle_connections_do_not_stop_others(strict):
    idle = [strict.connect() for _ in range(40)]
    try:
        assert strict.get("/healthz").status == 200
    finally:
        for connection in idle:
            connection.close()


def test_client_that_leaves_does_no_harm(server):
    body = json.dumps({"instances": ["a"] * 4000}).encode()
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for data in (head[:20], head, head + body[:100], head + body):
        with server.connect() as connection:
            connection.sendall(data)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert server.predict({"instances": ["a"]}).status == 200


def test_line_breaks_cannot_enter_headers(server):
    data = (
        b"GET /v1/models/x HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c\r\nX-Evil\r\n: 1\r\n"
        b"Connection: close\r\n\r\n"
    )
    assert b"X-Evil" not in sent_raw(server, data)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": "k" * 15},
        {"X-API-Key": "é" * 16},
        {"Authorization": "Bearer " + "j" * 16},
        {"Authorization": "Basic " + "k" * 16},
        {"Authorization": "k" * 16},
    ],
)
def test_request_without_the_key_is_refused(strict, headers):
    for answer in (
        strict.predict({"instances": ["a"]}, **headers),
        strict.get("/v1/models/small", **headers),
        strict.get("/metrics", **headers),
        strict.get("/models", **headers),
    ):
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.error


def test_request_with_the_key_is_answered_and_health_needs_none(strict):
    assert strict.get("/v1/models/small", **KEY).status == 200
    assert strict.get("/v1/models/small", Authorization="Bearer " + "k" * 16).status == 200
    assert strict.get("/healthz").status == strict.get("/readyz").status == 200


def test_other_origins_get_no_permission_by_default(server):
    answer = server.get("/models", Origin="https://evil.example")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_given_origin_gets_permission(written_export):
    origin = "https://pages.example"
    sources = find_models(written_export.parent)
    with RunningServer(sources, cors_origins=(origin,), grpc_port=None) as running:
        answer = running.get("/models", Origin=origin)
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        other = running.get("/models", Origin="https://evil.example")
        assert "Access-Control-Allow-Origin" not in other.headers
        preflight = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        }
        assert running.call("OPTIONS", PREDICT, headers=preflight).status == 200


def test_server_listens_on_loopback_only_by_default(server):
    assert server.server.settings.host == "127.0.0.1"
    own = socket.gethostbyname(socket.gethostname())
    if not own.startswith("127."):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((own, server.server.port), timeout=5)


def test_deadline_is_kept_while_all_workers_are_busy(written_export):
    limits = RequestLimits(seconds=0.3)
    sources = find_models(written_export.parent)
    with RunningServer(sources, limits=limits, grpc_port=None) as running:
        pool = running.server.manager.workers._pool
        busy = pool.submit(time.sleep, 1.5)
        answer = running.predict({"instances": ["a"]})
        assert answer.status == 504
        assert not busy.done()
        busy.result()
        assert running.predict({"instances": ["a"]}).status == 200
