"""Start, stop and options of the server."""

import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.serving import RequestLimits, ServerSettings, find_models
from keras_transformer.serving.servable import request_error
from tests.serving.running import RunningServer
from tests.serving.test_grpc import open_channel, request_for

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")


@pytest.fixture
def sources(written_export):
    return find_models(written_export.parent)


class Held:
    """Keeps all workers of a server busy until `release`."""

    def __init__(self, running):
        workers = running.server.manager.workers
        self.release = threading.Event()
        self.holds = [workers._pool.submit(self.release.wait, 30) for _ in range(workers.count)]


def until(condition):
    """Waits until a condition holds, which it must within a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_requests_that_wait_when_the_server_stops_are_answered(sources):
    answers = []
    running = RunningServer(sources)
    with running, open_channel(running) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        batcher = running.server.manager.batcher
        held = Held(running)
        rest = threading.Thread(
            target=lambda: answers.append(running.predict({"instances": ["a"]}))
        )
        rest.start()
        call = stub.Predict.future(request_for(text=["b"]), timeout=60)
        until(lambda: len(batcher._unanswered) == 2)
        running.begin_stop()
        until(lambda: running.server.app.is_draining)
        held.release.set()
        rest.join()
        assert answers[0].json["predictions"][0]["text"] == "A"
        assert call.result().outputs["text"].string_val[0] == b"B"
        running.wait()
        with pytest.raises(ConnectionRefusedError):
            running.connect()


def test_stop_does_not_wait_longer_than_allowed(sources):
    running = RunningServer(sources, drain_seconds=0.2)
    with running:
        held = Held(running)
        failed = []

        def ask():
            try:
                running.predict({"instances": ["a"]})
            except OSError as error:
                failed.append(error)

        rest = threading.Thread(target=ask)
        rest.start()
        until(lambda: running.server.manager.batcher._unanswered)
        running.begin_stop()
        rest.join()
        held.release.set()


def test_full_queue_is_answered_with_429_and_health_stays_fast(sources):
    with RunningServer(sources, max_waiting_rows=4, max_batch_rows=4) as running:
        held = Held(running)
        answers = []

        def ask():
            answers.append(running.predict({"instances": ["a"]}))

        clients = [threading.Thread(target=ask) for _ in range(20)]
        for client in clients:
            client.start()
        until(lambda: len(answers) >= 15)
        assert running.get("/healthz").status == 200
        assert {answer.status for answer in answers} == {429}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)
        with open_channel(running) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                stub.Predict(request_for(text=["a"]), timeout=30)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "retry-after" in dict(caught.value.trailing_metadata())
        held.release.set()
        for client in clients:
            client.join()
        statuses = [answer.status for answer in answers]
        assert statuses.count(200) == 5  # one ran, four waited


def test_client_that_leaves_while_it_waits_makes_room(sources):
    with RunningServer(sources, grpc_port=None) as running:
        held = Held(running)
        body = b'{"instances": ["a"]}'
        head = f"POST /v1/models/small:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
        batcher = running.server.manager.batcher
        with running.connect() as connection:
            connection.sendall(f"{head}\r\n\r\n".encode() + body)
            until(lambda: batcher._unanswered)
        until(lambda: not batcher._unanswered)
        held.release.set()
        assert running.predict({"instances": ["b"]}).status == 200


def test_processes_answer_as_threads_do_and_a_dead_one_is_replaced(sources):
    with RunningServer(sources, worker_kind="processes", grpc_port=None) as running:
        words = ["guten", "morgen", ""]
        answers = running.predict({"instances": words}).json["predictions"]
        assert [answer["text"] for answer in answers] == ["GUTEN", "MORGEN", ""]
        assert running.predict({"inputs": {"text": [["a"]]}}).status == 400
        sample = {"text": ["a"], "temperature": 1, "seed": 7}
        both = [running.predict({"signature_name": "sample", "inputs": sample}) for _ in range(2)]
        assert both[0].json == both[1].json
        (pool,) = running.server.manager.workers._pools
        (process,) = pool._processes.values()
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: not process.is_alive())
        assert running.predict({"instances": ["a"]}).status == 503
        assert running.predict({"instances": ["a"]}).json["predictions"][0]["text"] == "A"


def test_tls_is_used_by_rest_and_grpc(sources, tmp_path):
    certificate, key = str(tmp_path / "chain.pem"), str(tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", key, "-out", certificate, "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    with RunningServer(sources, tls_certificate=certificate, tls_key=key) as running:
        context = ssl.create_default_context(cafile=certificate)
        url = f"https://localhost:{running.server.port}/readyz"
        with urllib.request.urlopen(url, context=context, timeout=30) as response:
            assert response.status == 200
        credentials = grpc.ssl_channel_credentials(pathlib.Path(certificate).read_bytes())
        target = f"localhost:{running.server.grpc_port}"
        with grpc.secure_channel(target, credentials) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            assert stub.Predict(request_for(text=["a"]), timeout=30).outputs


def test_access_log_has_a_line_of_json_for_each_request_without_its_texts(sources, tmp_path):
    path = tmp_path / "access.jsonl"
    with RunningServer(sources, access_log=str(path), grpc_port=None) as running:
        running.predict({"instances": ["secret", "b"]})
        running.predict({"instances": [5]})
        running.get("/healthz?token=secret")
    assert "secret" not in path.read_text()
    good, bad, health = map(json.loads, path.read_text().splitlines())
    assert (good["status"], good["model"], good["version"], good["rows"]) == (200, "small", 1, 2)
    assert good["signature"] == "serving_default"
    assert good["method"] == "POST"
    assert (bad["status"], health["status"], health["path"]) == (400, 200, "/healthz")


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
def test_port_in_use_is_a_mistake(written_export, option, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ports = {"--port": "0", "--grpc-port": "0", option: str(port)}
        options = [text for pair in ports.items() for text in pair]
        assert main(["serve", str(written_export.parent), *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"127.0.0.1:{port}" in error


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "--config"),
        (["a", "--config", "b"], "--config"),
        (["nowhere"], "nowhere"),
        (["--config", "nowhere.config"], "nowhere.config"),
        (["models", "--port", "70000"], "--port"),
        (["models", "--workers", "0"], "--workers"),
        (["models", "--max-rows", "0"], "rows"),
        (["models", "--tls-key", "nowhere.pem"], "nowhere.pem"),
        (["models", "--api-key-file", "empty"], "empty"),
        (["models", "--api-key-file", "short"], "16"),
    ],
)
def test_wrong_option_is_a_mistake(models, monkeypatch, capsys, arguments, fact):
    monkeypatch.chdir(models.parent)
    pathlib.Path("empty").write_text("\n")
    pathlib.Path("short").write_text("abc\n")
    assert main(["serve", *arguments]) == 2
    assert fact in capsys.readouterr().err


def test_settings_keep_the_key_out_of_their_text():
    assert "k" * 16 not in repr(ServerSettings(api_key="k" * 16))
    with pytest.raises(UserError):
        RequestLimits(seconds=0)


def test_command_serves_until_sigterm_and_exits_0(written_export):
    command = [COMMAND, "serve", written_export.parent, "--port", "0", "--grpc-port", "0"]
    environment = {**os.environ, "KERAS_TRANSFORMER_API_KEY": "k" * 16}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        lines = iter(process.stderr.readline, "")
        line = next(line for line in lines if "REST: " in line)
        url = line.split("REST: ")[1].partition("/v1/")[0]
        request = urllib.request.Request(
            f"{url}/v1/models/small:predict",
            b'{"instances": ["guten"]}',
            {"Authorization": "Bearer " + "k" * 16},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            assert json.load(response)["predictions"][0]["text"] == "GUTEN"
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output == ""
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "assertion failed: [temperature]\n\t [[{{node assert}}]]",
            "assertion failed: [temperature]",
        ),
        (
            "Graph execution error:\n\nDetected at node 'a' defined at (most recent call last):\n"
            "Node: 'a'\nassertion failed: [temperature]\n\t [[{{node a}}]]",
            "assertion failed: [temperature]",
        ),
    ],
)
def test_error_of_a_failed_computation_is_its_cause(text, cause):
    assert request_error(tf.errors.InvalidArgumentError(None, None, text)).message == cause
