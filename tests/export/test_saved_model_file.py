"""`saved_model.pb` and the weights with any bytes: they are read, or refused in one line."""

import os
import shutil

import numpy as np
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer._utils.errors import UserError
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.graph import signatures_of
from keras_transformer.export.modules import signatures_of_kind
from keras_transformer.export.saved_model_file import (
    SAVED_MODEL,
    check_variables,
    read_meta_graph,
)
from keras_transformer.export.signatures import check_signatures


def refusal_of(directory):
    with pytest.raises(UserError) as refusal:
        read_meta_graph(directory)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def rewrite(directory, change):
    path = directory / SAVED_MODEL
    saved_model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(saved_model)
    path.write_bytes(saved_model.SerializeToString())


def test_read_meta_graph_of_an_empty_file_raises_an_error(export):
    (export / SAVED_MODEL).write_bytes(b"")
    assert "damaged: saved_model.pb: zero bytes. Copy the directory again" in refusal_of(export)


def test_read_meta_graph_of_a_truncated_file_raises_an_error(export):
    content = (export / SAVED_MODEL).read_bytes()
    for length in [1, 2, 3, 10, *np.linspace(11, len(content) - 1, 50).astype(int)]:
        (export / SAVED_MODEL).write_bytes(content[:length])
        assert "damaged: saved_model.pb: " in refusal_of(export)


@pytest.mark.parametrize(
    "content", [b"not a protobuf", b"\x08\x01", b"\0" * 1000, b"\xff" * 1000, b"\x12\x00" * 2]
)
def test_read_meta_graph_of_other_content_raises_an_error(export, content):
    (export / SAVED_MODEL).write_bytes(content)
    assert f"{export}: " in refusal_of(export)


def test_read_meta_graph_of_deeply_nested_messages_raises_an_error(export):
    content = b""
    for _ in range(5_000):
        # meta_graphs, and then any field that holds messages of its own kind
        size = len(content)
        content = (
            b"\x12" + bytes([size % 128 | 128, size // 128 % 128 | 128, size // 16384]) + content
        )
    (export / SAVED_MODEL).write_bytes(content)
    refusal_of(export)


def test_checks_of_a_flipped_bit_pass_or_report_one_line(export):
    """A flip in a constant is found only by the sha256 of the manifest."""
    content = (export / SAVED_MODEL).read_bytes()
    read, messages = 0, []
    for position in np.random.default_rng(5).integers(0, len(content), 300):
        changed = bytearray(content)
        changed[position] ^= 1 << (position % 8)
        (export / SAVED_MODEL).write_bytes(changed)
        try:
            meta_graph = read_meta_graph(export)
            read += 1
            check_ops(export, meta_graph)
            check_signatures(
                export, signatures_of(meta_graph), "Transformer", signatures_of_kind("Transformer")
            )
            check_variables(export, meta_graph)
        except UserError as refusal:
            messages.append(str(refusal))
    assert read > 100
    assert messages
    assert not [message for message in messages if "\n" in message]


def test_read_meta_graph_refuses_a_huge_file(export):
    os.truncate(export / SAVED_MODEL, 10 << 30)
    assert "10,737,418,240 bytes, but at most 268,435,456 are read" in refusal_of(export)


def test_read_meta_graph_refuses_links_pipes_and_directories(export):
    path = export / SAVED_MODEL
    path.rename(export.parent / "elsewhere")
    path.symlink_to(export.parent / "elsewhere")
    assert "saved_model.pb: a symbolic link" in refusal_of(export)
    path.unlink()
    os.mkfifo(path)
    assert "saved_model.pb: not a regular file" in refusal_of(export)
    path.unlink()
    path.mkdir()
    assert "saved_model.pb: not a regular file" in refusal_of(export)


@pytest.mark.parametrize("name", ["saved_model.pbtxt", "saved_model.cpb"])
def test_read_meta_graph_refuses_a_second_form_of_the_graph(export, name):
    shutil.copy(export / SAVED_MODEL, export / name)
    assert f"{name}: a second form of the graph" in refusal_of(export)


def test_read_meta_graph_refuses_a_second_graph(export):
    def change(saved_model):
        saved_model.meta_graphs.add().CopyFrom(saved_model.meta_graphs[0])
        saved_model.meta_graphs[1].meta_info_def.tags[:] = ["serve", "gpu"]

    rewrite(export, change)
    assert "an export holds one graph, tagged 'serve'; found serve, gpu+serve" in refusal_of(export)


def test_read_meta_graph_refuses_a_graph_without_a_tag(export):
    rewrite(export, lambda model: model.meta_graphs[0].meta_info_def.ClearField("tags"))
    assert "tagged 'serve'; found (no tag)" in refusal_of(export)


DATA = "variables/variables.data-00000-of-00001"
INDEX = "variables/variables.index"


def variables_refusal_of(directory):
    with pytest.raises(UserError) as refusal:
        check_variables(directory, read_meta_graph(directory))
    message = str(refusal.value)
    assert "\n" not in message
    return message


def test_check_variables_counts_variables_and_parameters(written_export, other_export):
    assert check_variables(written_export, read_meta_graph(written_export)) == (1, 4 * 3)
    assert check_variables(other_export, read_meta_graph(other_export)) == (1, 9 * 3)


def test_check_variables_detects_weights_of_another_model(export, other_export):
    shutil.rmtree(export / "variables")
    shutil.copytree(other_export / "variables", export / "variables")
    message = variables_refusal_of(export)
    assert (
        f"damaged: {INDEX}: the graph expects 'embedding' as float32 [4, 3], but its weights are "
        "float32 [9, 3]: those of another model." in message
    )


def test_check_variables_detects_missing_weights(export):
    meta_graph = read_meta_graph(export)
    objects = meta_graph.object_graph_def
    objects.nodes.add().variable.name = "bias"
    objects.nodes[0].children.add(node_id=len(objects.nodes) - 1, local_name="bias")
    with pytest.raises(UserError, match=r"variables\.index: no weights for the variable 'bias'"):
        check_variables(export, meta_graph)


@pytest.mark.parametrize("name", [INDEX, DATA, "variables"])
def test_check_variables_without_files_raises_an_error(export, name):
    path = export / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert f"damaged: {DATA if name == DATA else INDEX}: missing" in variables_refusal_of(export)


@pytest.mark.parametrize("name", [INDEX, DATA])
def test_check_variables_of_damaged_files_passes_or_reports_one_line(export, name):
    """Damage that shows only when weights are read is left to the sha256 of the manifest."""
    meta_graph, path = read_meta_graph(export), export / name
    content = path.read_bytes()
    messages = []
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << (position % 8)
        for damage in (changed, content[:position]):
            path.write_bytes(damage)
            try:
                assert check_variables(export, meta_graph) == (1, 12)
            except UserError as refusal:
                messages.append(str(refusal))
    assert len(messages) > len(content)
    assert not [message for message in messages if "\n" in message]
