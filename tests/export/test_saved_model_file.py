"""`saved_model.pb` is read, or refused in one line, whatever its bytes are."""

import os
import shutil

import numpy as np
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer._utils.errors import UserError
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.saved_model_file import SAVED_MODEL, check_variables, read_meta_graph
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


def test_zero_bytes(export):
    (export / SAVED_MODEL).write_bytes(b"")
    assert "damaged: saved_model.pb: zero bytes. Copy the directory again" in refusal_of(export)


def test_cut_short_anywhere(export):
    content = (export / SAVED_MODEL).read_bytes()
    for length in [1, 2, 3, 10, *np.linspace(11, len(content) - 1, 50).astype(int)]:
        (export / SAVED_MODEL).write_bytes(content[:length])
        assert "damaged: saved_model.pb: " in refusal_of(export)


@pytest.mark.parametrize(
    "content", [b"not a protobuf", b"\x08\x01", b"\0" * 1000, b"\xff" * 1000, b"\x12\x00" * 2]
)
def test_other_content(export, content):
    (export / SAVED_MODEL).write_bytes(content)
    assert f"{export}: " in refusal_of(export)


def test_messages_nested_too_deep_for_a_parser(export):
    content = b""
    for _ in range(5_000):
        # meta_graphs, and then any field that holds messages of its own kind
        size = len(content)
        content = (
            b"\x12" + bytes([size % 128 | 128, size // 128 % 128 | 128, size // 16384]) + content
        )
    (export / SAVED_MODEL).write_bytes(content)
    refusal_of(export)


def test_any_flipped_bit_gives_a_graph_or_one_line(export):
    """A flip in a constant cannot be told here: that is why the manifest holds the sha256."""
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
            check_signatures(export, meta_graph, "Transformer")
            check_variables(export, meta_graph)
        except UserError as refusal:
            messages.append(str(refusal))
    assert read > 100
    assert messages
    assert not [message for message in messages if "\n" in message]


def test_a_huge_file_is_not_read(export):
    os.truncate(export / SAVED_MODEL, 10 << 30)
    assert "10,737,418,240 bytes, but at most 268,435,456 are read" in refusal_of(export)


def test_a_link_a_pipe_and_a_directory(export):
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
def test_a_second_graph_in_another_form(export, name):
    shutil.copy(export / SAVED_MODEL, export / name)
    assert f"{name}: a second form of the graph beside saved_model.pb" in refusal_of(export)


def test_a_second_graph_with_other_tags(export):
    def change(saved_model):
        saved_model.meta_graphs.add().CopyFrom(saved_model.meta_graphs[0])
        saved_model.meta_graphs[1].meta_info_def.tags[:] = ["serve", "gpu"]

    rewrite(export, change)
    assert "an export holds one graph, tagged 'serve'; found serve, gpu+serve" in refusal_of(export)


def test_a_graph_without_a_tag(export):
    rewrite(export, lambda model: model.meta_graphs[0].meta_info_def.ClearField("tags"))
    assert "tagged 'serve'; found (no tag)" in refusal_of(export)
