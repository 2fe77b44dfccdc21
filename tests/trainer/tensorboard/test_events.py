"""Event files of a `model.fit` with all callbacks."""

import html
import io
import re

import numpy as np
import pytest
from google.protobuf import text_format
from matplotlib import image
from tensorboard import plugin_util
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.projector import ProjectorConfig

from keras_transformer.metrics import TEXT_METRICS
from tests.trainer.tensorboard.events import event_files, events_of, read_events
from tests.trainer.tensorboard.watched_run import EVERY, REFERENCES, SETTINGS, SOURCES

LAYERS = ("encoder/layer_1", "decoder/layer_1", "cross/layer_1")


def test_each_directory_has_one_event_file(watched):
    projector = {"projector_config.pbtxt", "embedding.tsv", "embedding_tokens.tsv"}
    assert {path.name for path in watched.log_dir.iterdir()} == {"train", "validation"}
    for part, others in (("train", projector), ("validation", set())):
        (events,) = event_files(watched.log_dir / part)
        names = {path.name for path in (watched.log_dir / part).iterdir()}
        assert names == {events.name, *others}


def scalars(directory):
    """Returns the value of each tag by step."""
    found = {}
    for event in events_of(directory, "scalars"):
        assert event.tag not in found.setdefault(event.step, {})
        found[event.step][event.tag] = event.value
    return found


def test_training_curves_have_the_logs_of_fit_by_training_step(watched):
    found = scalars(watched.log_dir / "train")
    assert list(watched.batches) == [1, 2, 3, 4, 5, 6]  # counted across epochs
    assert list(found) == [2, 4, 6] == [step for step in watched.batches if step % EVERY == 0]
    for step, values in found.items():
        rate = values.pop("learning_rate")
        assert values == pytest.approx(watched.batches[step])
        assert rate == pytest.approx(1e-3 * min((step + 1) / 4, (4 / (step + 1)) ** 0.5))


def test_evaluations_have_the_tags_of_training_and_text_metrics(watched):
    found = scalars(watched.log_dir / "validation")
    assert list(found) == [3, 6]
    for step, values in found.items():
        assert values == pytest.approx(watched.tests[step])
        assert set(values) == {*watched.batches[step], *TEXT_METRICS}


def test_keras_callbacks_get_the_text_metrics(watched):
    for name in (*TEXT_METRICS, "loss"):
        assert watched.history[f"val_{name}"] == [watched.tests[step][name] for step in (3, 6)]


def test_attention_is_drawn_for_each_layer_and_example(watched):
    found = events_of(watched.log_dir / "validation", "images")
    expected = [(f"attention/{layer}", step) for step in (3, 6) for layer in LAYERS]
    assert [(event.tag, event.step) for event in found] == expected
    sizes = {}
    for event in found:
        *size, short, long = event.value
        assert len(size) == 2
        sizes[event.tag] = [image.imread(io.BytesIO(each)).shape for each in (short, long)]
    for (height, width, _), (longer_height, longer_width, _) in sizes.values():
        assert 100 < height < longer_height < 1500
        assert 100 < width < longer_width < 1500
    # The picture changes with the weights.
    assert found[0].value != found[len(LAYERS)].value


def test_translations_are_escaped_in_a_table(watched):
    found = events_of(watched.log_dir / "validation", "text")
    assert [(event.tag, event.step) for event in found] == [
        ("translations", 3),
        ("translations", 6),
    ]
    for event in found:
        page = plugin_util.markdown_to_safe_html(event.value)  # as TensorBoard shows it
        rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
        cells = [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in rows]
        texts = [[html.unescape(cell) for cell in row] for row in cells]
        assert texts[0] == ["source", "reference", "hypothesis"]
        hypotheses = watched.hypotheses[event.step]
        assert texts[1:] == [list(row) for row in zip(SOURCES, REFERENCES, hypotheses, strict=True)]
    assert watched.hypotheses[3][0] == REFERENCES[0]


def test_settings_are_logged_as_hyperparameters(watched):
    started, ended = events_of(watched.log_dir / "validation", "hparams")
    assert (started.tag, started.step) == ("_hparams_/session_start_info", 0)
    content = plugin_data_pb2.HParamsPluginData.FromString(started.content)
    values = content.session_start_info.hparams
    assert {name: value.WhichOneof("kind") for name, value in values.items()} == {
        "name": "string_value",
        "model.hidden_dim": "number_value",
        "model.dropout": "number_value",
        "text.shared": "bool_value",
    }
    assert values["model.hidden_dim"].number_value == SETTINGS["model"]["hidden_dim"]
    assert values["name"].string_value == SETTINGS["name"]
    content = plugin_data_pb2.HParamsPluginData.FromString(ended.content)
    assert content.session_end_info.status == api_pb2.STATUS_SUCCESS


def test_histograms_count_all_weights(watched):
    found = events_of(watched.log_dir / "train", "histograms")
    (first, last) = (event for event in found if event.tag == "weights/embedding/embeddings")
    assert (first.step, last.step) == (3, 6)
    starts, ends, counts = np.transpose(last.value)
    assert counts.sum() == watched.embeddings.size
    assert starts[0] == pytest.approx(watched.embeddings.min())
    assert ends[-1] == pytest.approx(watched.embeddings.max())
    assert len({event.tag for event in found}) == len(found) / 2 > 40


def test_projector_has_the_embeddings_and_their_labels(watched):
    directory = watched.log_dir / "train"
    content = (directory / "projector_config.pbtxt").read_text(encoding="utf-8")
    (entry,) = text_format.Parse(content, ProjectorConfig()).embeddings
    vectors = np.loadtxt(directory / entry.tensor_path, delimiter="\t", dtype="float32")
    np.testing.assert_array_equal(vectors, watched.embeddings)
    assert tuple(entry.tensor_shape) == vectors.shape
    lines = (directory / entry.metadata_path).read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    head, *labels = [line.split("\t") for line in lines]
    assert head == ["token", "id"]
    assert [number for _, number in labels] == [str(id) for id in range(len(vectors))]
    assert [label for label, _ in labels[:4]] == ["<padding>", "<unknown>", "<start>", "<end>"]
    assert [label for label, _ in labels] == [
        piece.replace("▁", "␣") for piece in watched.vocabulary
    ]


def test_events_have_no_other_plugins(watched):
    plugins = {event.plugin for part in ("train", "validation") for event in
               read_events(watched.log_dir / part)}  # fmt: skip
    assert plugins == {"scalars", "images", "text", "hparams", "histograms"}
