"""The client gives the answers of the loaded export, without TensorFlow."""

import contextlib
import http.server
import json
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import keras_transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.serving import Client, ServerError, find_models
from tests.serving.page_models import write_classifier_export, write_word_export
from tests.serving.running import RunningServer

TEXTS = ["guten morgen", "", "nacht 日本", '"\\ \u2028']


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    models = tmp_path_factory.mktemp("client")
    write_word_export(models / "words" / "3")
    write_word_export(models / "stories" / "1", kind="LanguageModel")
    write_classifier_export(models / "opinions" / "1")
    return models


@pytest.fixture(scope="module")
def running(directory):
    with RunningServer(find_models(directory), grpc_port=None) as running:
        yield running


@pytest.fixture(scope="module")
def pairs(running, directory):
    """The client and the loaded export of each model."""
    return {
        name: (client_of(running, name), keras_transformer.load(directory / name))
        for name in ("words", "stories", "opinions")
    }


def client_of(running, name, **settings):
    url = f"http://127.0.0.1:{running.server.port}/v1/models/{name}"
    return Client(url, **settings)


def same(first, second):
    """Compares results of the methods: dataclasses, arrays, or lists of them."""
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if hasattr(first, "__dataclass_fields__"):
        return type(first) is type(second) and same(
            [*vars(first).values()], [*vars(second).values()]
        )
    return first == second


CALLS = {
    "translate": lambda model: model.translate(TEXTS),
    "translate one": lambda model: model.translate("guten"),
    "translate nothing": lambda model: model.translate([]),
    "sample": lambda model: model.generate(["nacht"] * 3, temperature=0.5, seed=7),
    "n_best": lambda model: model.n_best(TEXTS, 1),
    "score": lambda model: model.score(TEXTS, TEXTS),
    "attention": lambda model: model.attention(["ein roter Hund", "", "ja"]),
    "attention to targets": lambda model: model.attention("ein Hund", "a dog runs"),
    "embed": lambda model: model.embed(TEXTS),
    "embed nothing": lambda model: model.embed([]),
}


@pytest.mark.parametrize("call", CALLS)
def test_methods_give_the_answers_of_the_loaded_export(pairs, call):
    client, loaded = pairs["words"]
    assert same(CALLS[call](client), CALLS[call](loaded))


def test_language_model_scores_texts_without_a_source(pairs):
    client, loaded = pairs["stories"]
    assert client.score(TEXTS) == loaded.score(TEXTS)
    assert client.generate("guten") == loaded.generate("guten")


def test_encoder_embeds_and_classifies(pairs):
    client, loaded = pairs["opinions"]
    assert same(client.embed("gut"), loaded.embed("gut"))
    assert same(client.classify(["gut", "schlecht!"]), loaded.classify(["gut", "schlecht!"]))


@pytest.mark.parametrize("name", ["words", "stories", "opinions"])
def test_client_offers_what_the_loaded_export_offers(pairs, name):
    client, loaded = pairs[name]
    assert client.offers == loaded.offers
    assert client.kind == loaded.kind


def test_method_that_the_model_lacks_names_those_that_it_has(pairs):
    client, _ = pairs["opinions"]
    with pytest.raises(UserError, match="embed, classify"):
        client.translate("guten")


def test_search_of_an_export_cannot_be_set(pairs):
    with pytest.raises(UserError, match="beams"):
        pairs["words"][0].translate("guten", beams=2)


def test_long_inputs_become_several_requests(running, pairs):
    client, _ = pairs["words"]
    texts = ["a" * 400_000] * 12
    assert client.translate(texts) == ["A" * 400_000] * 12
    # In one request, they would be larger than the server allows.
    assert sum(map(len, texts)) > running.server.settings.limits.body_bytes
    found = client.attention(["ein roter Hund"] * 1500 + ["ja"], ["a"] * 1500 + ["b c"])
    assert [each.weights.shape for each in (found[0], found[-1])] == [(1, 3), (2, 1)]


def test_version_can_be_part_of_the_address(running):
    assert client_of(running, "words/versions/3").translate("guten") == "GUTEN"
    with pytest.raises(ServerError) as caught:
        client_of(running, "words/versions/4")
    assert caught.value.status == 404
    assert "words, 4" in caught.value.message


def test_name_of_a_single_model_can_be_chosen(directory):
    (source,) = find_models(directory / "words", "other")
    assert (source.name, source.directory.name) == ("other", "words")
    (source,) = find_models(directory / "words" / "3", "other")
    assert (source.name, source.only) == ("other", (3,))
    with pytest.raises(UserError, match="one model"):
        find_models(directory, "other")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8501", "http://127.0.0.1/", "ftp://a/v1/models/b", "http:///v1/models/b"]
)
def test_address_that_names_no_model_is_an_error(url):
    with pytest.raises(UserError, match="url"):
        Client(url)


def test_error_has_the_text_and_status_of_the_server(running, pairs):
    limit = running.server.settings.limits.text_bytes
    with pytest.raises(ServerError) as caught:
        pairs["words"][0].translate("a" * (limit + 1))
    assert caught.value.status == 400
    assert str(limit) in caught.value.message


def test_threads_share_a_client(pairs):
    client, _ = pairs["words"]
    found = {}

    def translate(number):
        found[number] = [client.translate(f"text {number}") for _ in range(20)]

    threads = [threading.Thread(target=translate, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [f"TEXT {number}"] * 20 for number in range(4)}


def test_connection_that_the_server_closed_is_opened_again(running):
    with client_of(running, "words") as client:
        (connection,) = client._idle
        connection.sock.shutdown(socket.SHUT_RDWR)
        assert client.translate("guten") == "GUTEN"


def test_api_key_is_sent(directory):
    key = "0123456789abcdef"
    sources = find_models(directory / "words")
    with RunningServer(sources, grpc_port=None, api_key=key) as running:
        assert client_of(running, "words", api_key=key).translate("guten") == "GUTEN"
        for settings in ({}, {"api_key": "wrong"}):
            with pytest.raises(ServerError) as caught:
                client_of(running, "words", **settings)
            assert caught.value.status == 401


METADATA = {
    "metadata": {
        "signature_def": {
            "signature_def": {
                "serving_default": {
                    "outputs": {
                        "text": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "-1"}]}},
                        "score": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}]}},
                    }
                }
            }
        }
    }
}


class ScriptedServer:
    """A server whose answers to :predict are given: status, headers and content of each.

    Like TensorFlow Serving, it has no list of models.
    """

    def __init__(self, *answers):
        self.left = list(answers)
        self.times = []
        script = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                is_known = self.path.endswith("/metadata")
                self.answer(*((200, {}, METADATA) if is_known else (404, {}, {"error": "no"})))

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                script.times.append(time.monotonic())
                self.answer(*script.left.pop(0))

            def answer(self, status, headers, content):
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": len(body)}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @contextlib.contextmanager
    def running(self, **settings):
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()
        try:
            url = f"http://127.0.0.1:{self.server.server_port}/v1/models/any"
            with Client(url, **settings) as client:
                yield client
        finally:
            self.server.shutdown()
            self.server.server_close()


GOOD = (200, {}, {"outputs": {"text": ["ja"], "score": [-1.5]}})
BUSY = (429, {"Retry-After": 1}, {"error": "Too many rows wait."})


def test_busy_server_is_asked_again_after_its_retry_after():
    server = ScriptedServer(BUSY, (503, {}, {"error": "starting"}), GOOD)
    with server.running() as client:
        assert client.translate("yes") == "ja"
    first, second, third = server.times
    assert second - first >= 1
    assert third > second


@pytest.mark.parametrize(
    "answer", [BUSY, (429, {"Retry-After": 3600}, {"error": "Too many rows wait."})]
)
def test_server_that_stays_busy_is_an_error_with_its_text(answer):
    server = ScriptedServer(*[answer] * 2)
    with (
        server.running(retries=0 if answer is BUSY else 4) as client,
        pytest.raises(ServerError, match="Too many rows wait") as caught,
    ):
        client.translate("yes")
    assert caught.value.retry_after == answer[1]["Retry-After"]
    assert len(server.times) == 1


def test_other_errors_are_not_repeated():
    server = ScriptedServer((400, {}, {"error": "wrong"}), GOOD)
    with server.running() as client, pytest.raises(ServerError, match="wrong"):
        client.translate("yes")
    assert len(server.left) == 1


def test_page_of_a_proxy_in_place_of_an_answer_is_an_error():
    page = b"<html>Bad gateway</html>"
    server = ScriptedServer((502, {}, page), (200, {}, page))
    with server.running() as client:
        for _ in range(2):
            with pytest.raises(ServerError, match="Bad gateway"):
                client.translate("yes")


def test_invalid_utf8_of_a_model_is_replaced():
    outputs = {"text": [{"b64": "SmH/"}], "score": [-1.0]}
    server = ScriptedServer((200, {}, {"outputs": outputs}))
    with server.running() as client:
        assert client.translate("yes") == "Ja\ufffd"


def test_server_that_does_not_answer_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models/any"
        with pytest.raises(TimeoutError):
            Client(url, timeout=0.2)
    with pytest.raises(ConnectionError):
        Client(url)


def test_client_does_not_import_tensorflow(running):
    code = (
        "import sys; from keras_transformer.serving import Client; "
        f"client = Client('http://127.0.0.1:{running.server.port}/v1/models/words'); "
        "print(client.translate('guten'), 'tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.split() == ["GUTEN", "False", "False"]


def events(*contents):
    """Returns the answer of a server that streams these events: name, and data."""
    lines = [
        (f"event: {name}\n" if name else "") + f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
        for name, data in contents
    ]
    return 200, {"Content-Type": "text/event-stream"}, "".join(lines).encode()


def test_stream_gives_the_text_after_each_token():
    answer = events(
        (None, {"delta": "zwei "}),
        (None, {"delta": "grüne"}),
        (None, {"text": "zwei Hunde"}),  # in place of all of the text
        ("done", {"text": "zwei Hunde!", "tokens": 4, "version": 1}),
    )
    server = ScriptedServer(BUSY, answer)
    with server.running() as client:
        texts = list(client.stream("two dogs"))
    assert texts == ["zwei ", "zwei grüne", "zwei Hunde", "zwei Hunde!"]


def test_error_within_a_stream_follows_its_texts():
    answer = events((None, {"delta": "zwei"}), ("error", {"error": "too slow", "code": "ABORTED"}))
    server = ScriptedServer(answer, events((None, {"delta": "zwei"})))
    with server.running() as client:
        for message in ("too slow", "ended early"):
            texts = client.stream("two")
            assert next(texts) == "zwei"
            with pytest.raises(ServerError, match=message):
                next(texts)


def test_stream_of_a_model_that_has_none_is_an_error(pairs):
    with pytest.raises(ServerError):
        pairs["words"][0].stream("guten")
