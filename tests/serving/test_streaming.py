"""Streams of a running server, and the command that prints them."""

import json
import threading

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.cli.main import main
from keras_transformer.export.formats.saved_model import write_warmup_requests
from keras_transformer.export.golden import make_golden_pair
from keras_transformer.export.manifest import write_manifest
from keras_transformer.serving import RequestLimits, find_models
from tests.export.small_export import NAMES, SmallModel, golden_pairs, manifest_content
from tests.serving.running import RunningServer

PATH = "/v1/models/small:stream"


class StreamingModel(SmallModel):
    """Writes the text in upper case, byte by byte; after "~" it begins anew with "!"."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="text"),
            tf.TensorSpec([None], tf.string, name="state"),
            tf.TensorSpec([], tf.float32, name="temperature"),
            tf.TensorSpec([], tf.int32, name="seed"),
            tf.TensorSpec([], tf.int32, name="steps"),
        ]
    )
    def next_tokens(self, text, state, temperature, seed, steps):
        is_first = tf.equal(tf.size(state), 0)
        state = tf.cond(is_first, lambda: tf.concat([[""], text], axis=0), lambda: state)
        position = tf.strings.length(state[0]) + steps
        whole = tf.strings.upper(state[1:])
        written = tf.strings.substr(whole, 0, position)
        is_new = tf.strings.regex_full_match(written, ".*~.+")
        shown = tf.where(is_new, tf.strings.regex_replace(written, ".*~", "!"), written)
        state = tf.concat([written, state[1:]], axis=0)
        done = tf.fill(tf.shape(whole), position) >= tf.strings.length(whole)
        return {"text": shown, "done": done, "state": state}


@pytest.fixture(scope="module")
def streaming_models(tmp_path_factory):
    models = tmp_path_factory.mktemp("streaming")
    model, directory = StreamingModel(), models / "small" / "1"
    names = [*NAMES, "next_tokens"]
    tf.saved_model.save(model, str(directory), {name: getattr(model, name) for name in names})
    write_warmup_requests(directory, [])
    settings = {"temperature": np.float32(0), "seed": np.int32(1), "steps": np.int32(2)}
    request = {"text": np.array([b"abc"]), "state": np.array([], object), **settings}
    answer = {"text": np.array([b"AB"]), "done": np.array([False])}
    pairs = [*golden_pairs(model, NAMES), make_golden_pair("next_tokens", request, answer)]
    write_manifest(directory, manifest_content(pairs))
    return models


@pytest.fixture(scope="module")
def streaming(streaming_models):
    limits = RequestLimits(text_bytes=1000, streams=2)
    with RunningServer(find_models(streaming_models), limits=limits, workers=2) as running:
        yield running


def events_of(answer):
    """Returns name and data of the events of an answer."""
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = []
    for block in answer.body.decode().removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert fields.keys() <= {"event", "data"}
        events.append((fields.get("event", "message"), json.loads(fields["data"])))
    return events


def test_stream_has_an_event_for_each_token_and_one_for_the_whole(streaming):
    *deltas, last = events_of(streaming.post(PATH, {"text": "guten"}))
    assert deltas == [("message", {"delta": letter}) for letter in "GUTEN"]
    assert last == ("done", {"text": "GUTEN", "tokens": 5, "version": 1})


def test_character_is_sent_when_all_its_bytes_are_there(streaming):
    *deltas, _ = events_of(streaming.post(PATH, {"text": "a🙂é"}))
    assert [data["delta"] for _, data in deltas] == ["A", "🙂", "é"]


def test_text_that_does_not_continue_the_last_one_is_sent_as_a_whole(streaming):
    *parts, last = events_of(streaming.post(PATH, {"text": "ab~cd"}))
    assert [data for _, data in parts][3:] == [{"text": "!C"}, {"delta": "D"}]
    assert last[1]["text"] == "!CD"


def test_line_breaks_of_a_text_do_not_break_the_events(streaming):
    text = "a\r\n\nevent: done\ndata: {}\n\n"
    events = events_of(streaming.post(PATH, {"text": text}))
    assert "".join(data["delta"] for _, data in events[:-1]) == text.upper()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        {"text": 5},
        {"text": None},
        {},
        {"texts": "a"},
        {"text": "a", "temperature": -1},
        {"text": "a", "temperature": "hot"},
        b'{"text": "a", "temperature": NaN}',
        {"text": "a", "seed": 0.5},
        {"text": "a", "seed": 2**31},
        {"text": "a" * 1001},
    ],
)
def test_wrong_request_for_a_stream_is_a_json_error(streaming, body):
    answer = streaming.post(PATH, body)
    assert answer.status == 400
    assert answer.error


def test_model_without_the_signature_says_how_to_get_it(server):
    answer = server.post("/v1/models/small:stream", {"text": "a"})
    assert answer.status == 501
    assert "next_tokens" in answer.error
    assert server.post("/v1/models/large:stream", {"text": "a"}).status == 404


def test_too_many_streams_are_refused_and_a_client_that_leaves_makes_room(streaming):
    body = json.dumps({"text": "x" * 1000}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    version = streaming.server.manager.models["small"].versions[1]
    first, second = streaming.connect(), streaming.connect()
    for connection in (first, second):
        connection.sendall(head + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    statuses = {streaming.post(PATH, {"text": "a"}).status for _ in range(2)}
    first.close()
    second.close()
    assert statuses <= {200, 429}
    while version.in_flight:
        pass
    assert streaming.post(PATH, {"text": "a"}).status == 200


def test_streams_and_batches_share_the_workers(streaming):
    answers = []
    client = threading.Thread(
        target=lambda: answers.append(events_of(streaming.post(PATH, {"text": "x" * 300})))
    )
    client.start()
    while not answers:
        assert streaming.predict({"instances": ["a"]}).status == 200
    client.join()
    assert answers[0][-1][1]["text"] == "X" * 300


def test_stream_that_takes_too_long_ends_with_an_error_event(streaming_models):
    limits = RequestLimits(stream_seconds=1.0)
    with RunningServer(find_models(streaming_models), limits=limits, grpc_port=None) as running:
        events = events_of(running.post(PATH, {"text": "x" * 100_000}))
    assert events[-1][0] == "error"
    assert events[-1][1]["code"] == "DEADLINE_EXCEEDED"


def test_command_prints_the_text(streaming, capsys, monkeypatch):
    url = f"http://127.0.0.1:{streaming.server.port}/v1/models/small"
    assert main(["stream", url, "guten 🙂"]) == 0
    assert capsys.readouterr().out == "GUTEN 🙂\n"
    assert main(["stream", url, "ab~cd"]) == 0
    assert capsys.readouterr().out == "AB~\n!CD\n"


@pytest.mark.parametrize(
    ("url", "fact"),
    [
        ("nowhere", "HOST:PORT/v1/models/NAME"),
        ("http://127.0.0.1:1/v1/models/small", "no answer"),
        ("{server}/v1/models/large", "Latest(large)"),
        ("{server}/v2/models/small", "HOST:PORT/v1/models/NAME"),
    ],
)
def test_command_reports_a_mistake(streaming, capsys, url, fact):
    server = f"http://127.0.0.1:{streaming.server.port}"
    assert main(["stream", url.format(server=server), "a"]) == 2
    assert fact in capsys.readouterr().err
