"""Reading of directories as Hugging Face stores them, damaged and hostile ones among them."""

import json
import os

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.hub import Checkpoint
from tests.hub.small_checkpoint import write_checkpoint, write_safetensors

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float16([1.5, -2.0])}


def read_all(directory):
    checkpoint = Checkpoint.open(directory)
    for name in checkpoint.tensors:
        checkpoint.read(name)


def refuse(directory):
    """Returns the error with which a directory is refused; it is one line."""
    with pytest.raises(UserError) as raised:
        read_all(directory)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def write_shards(directory, weight_map, shards):
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text("{}")
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    for name, tensors in shards.items():
        write_safetensors(directory / name, tensors)
    return directory


def test_tensors_are_read_as_float32(tmp_path):
    half = np.float32([1.0, -3.5]).view(np.uint32) >> 16
    tensors = {**TENSORS, "c": half.astype(np.uint16), "n": np.int64([7])}
    checkpoint = Checkpoint.open(write_checkpoint(tmp_path / "d", tensors))
    np.testing.assert_array_equal(checkpoint.read("a"), TENSORS["a"])
    assert checkpoint.read("b").dtype == np.float32
    np.testing.assert_array_equal(checkpoint.read("b"), [1.5, -2.0])
    np.testing.assert_array_equal(checkpoint.read("c"), [1.0, -3.5])
    np.testing.assert_array_equal(checkpoint.read("n"), [7])


def test_shards_are_read_as_one_checkpoint(tmp_path):
    files = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    shards = {file: {name: TENSORS[name]} for name, file in files.items()}
    checkpoint = Checkpoint.open(write_shards(tmp_path / "d", files, shards))
    np.testing.assert_array_equal(checkpoint.read("a"), TENSORS["a"])
    np.testing.assert_array_equal(checkpoint.read("b"), TENSORS["b"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path, value):
    tensors = {"a": np.ones(3, np.float32), "weird": np.array([1, value], np.float32)}
    assert "weird" in refuse(write_checkpoint(tmp_path / "d", tensors))


def test_float64_beyond_float32_is_refused(tmp_path):
    assert "infinite" in refuse(write_checkpoint(tmp_path / "d", {"a": np.float64([1e300])}))


@pytest.mark.parametrize(
    "file", ["../other.safetensors", "/etc/passwd", "x/../y.safetensors", ".x.safetensors", "", "a"]
)
def test_index_with_path_tricks_is_refused(tmp_path, file):
    write_safetensors(tmp_path / "other.safetensors", TENSORS)
    assert repr(file) in refuse(write_shards(tmp_path / "d", {"a": file}, {}))


def test_missing_shard_is_refused_by_name(tmp_path):
    assert "x.safetensors is missing" in refuse(
        write_shards(tmp_path / "d", {"a": "x.safetensors"}, {})
    )


@pytest.mark.parametrize("weight_map", [{"a": "x.safetensors"}, {"c": "x.safetensors"}])
def test_index_that_disagrees_with_its_shards_is_refused(tmp_path, weight_map):
    assert "the tensor" in refuse(
        write_shards(tmp_path / "d", weight_map, {"x.safetensors": TENSORS})
    )


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "\ufeff{}"])
def test_config_that_is_not_strict_json_is_refused(tmp_path, content):
    directory = write_checkpoint(tmp_path / "d", TENSORS)
    (directory / "config.json").write_text(content, encoding="utf-8")
    assert "config.json" in refuse(directory)


def replaced(**entry):
    """Returns a change of a header in which the entry of "a" has other values."""
    return lambda entries: {**entries, "a": {**entries["a"], **entry}}


@pytest.mark.parametrize(
    "change",
    [
        replaced(dtype="F8"),
        replaced(dtype=["F32"]),
        replaced(shape=[2, -3]),
        replaced(shape=[2, 3.0]),
        replaced(shape=[True, 6]),
        replaced(shape=[2**62, 2**62, 6]),  # overflows 64 bits
        replaced(shape=[2**63, 2, 0]),
        replaced(shape=[1] * 9 + [6]),
        replaced(data_offsets=[0, 23]),
        replaced(data_offsets=[4, 28]),
        replaced(data_offsets=[-24, 0]),
        replaced(data_offsets=[0]),
        replaced(more=1),
        lambda entries: {"b": entries["b"]},
        lambda entries: {**entries, "c": entries["a"]},
        lambda entries: {**entries, "a": 7},
        lambda entries: b"[]",
        lambda entries: b'{"a": ' * 100_000,
        lambda entries: b"\xff\xfe",
        lambda entries: b"",
    ],
)
def test_header_that_does_not_describe_the_file_is_refused(tmp_path, change):
    refuse(write_checkpoint(tmp_path / "d", TENSORS, change=change))


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b"x", lambda c: b""])
def test_file_of_another_length_is_refused(tmp_path, change):
    refuse(write_checkpoint(tmp_path / "d", TENSORS, content_change=change))


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 33 << 20, 1000])
def test_header_that_is_too_long_is_refused_before_it_is_read(tmp_path, size):
    directory = write_checkpoint(tmp_path / "d", TENSORS)
    path = directory / "model.safetensors"
    path.write_bytes(size.to_bytes(8, "little") + path.read_bytes()[8:])
    assert f"{size:,}" in refuse(directory)


@pytest.mark.parametrize("content", [b"", b"1234567"])
def test_file_without_header_is_refused(tmp_path, content):
    directory = write_checkpoint(tmp_path / "d", TENSORS)
    (directory / "model.safetensors").write_bytes(content)
    refuse(directory)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "generation_config.json"])
def test_symbolic_link_is_refused(tmp_path, name):
    directory = write_checkpoint(tmp_path / "d", TENSORS)
    path = directory / name
    if path.exists():
        path.rename(tmp_path / name)
    path.symlink_to(tmp_path / name)
    assert "symbolic link" in refuse(directory)


def test_pipe_is_refused_without_waiting(tmp_path):
    directory = write_checkpoint(tmp_path / "d", TENSORS)
    (directory / "config.json").unlink()
    os.mkfifo(directory / "config.json")
    assert "not a regular file" in refuse(directory)


def test_pickle_is_refused_with_the_command_that_converts_it(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    message = refuse(tmp_path)
    assert "pytorch_model.bin" in message
    assert "python -c" in message
    assert "weights_only=True" in message


def test_directory_without_weights_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert "model.safetensors" in refuse(tmp_path)
    assert "no such directory" in refuse(tmp_path / "none")
