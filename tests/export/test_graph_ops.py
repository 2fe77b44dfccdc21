"""Forbidden operations of real SavedModels are found wherever they are."""

import pathlib

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from keras_transformer._utils.errors import UserError
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.entry_points import check_entry_points
from keras_transformer.export.saved_model_file import read_meta_graph
from tests.export.small_export import TEXTS, save_module

NOWHERE = pathlib.Path("nowhere")


def refusal_of(meta_graph):
    with pytest.raises(UserError) as refusal:
        check_ops(NOWHERE, meta_graph)
    message = str(refusal.value)
    assert message.startswith("nowhere: refused: ops that an export may not hold")
    assert "\n" not in message
    return message


def read_file(text):
    return text + tf.io.read_file("/etc/hostname")


def write_file(text):
    with tf.control_dependencies([tf.io.write_file("written", text[0])]):
        return tf.identity(text)


def match_files(text):
    return text + tf.strings.reduce_join(tf.io.matching_files("/etc/*"))


def call_python(text):
    return tf.numpy_function(lambda value: value, [text], tf.string)


def call_eager_python(text):
    return tf.py_function(lambda value: value, [text], tf.string)


def print_to_file(text):
    tf.print(text, output_stream="file://written")
    return text


def map_file(text):
    constant = tf.raw_ops.ImmutableConst(
        dtype=tf.float32, shape=[1], memory_region_name="/etc/hostname"
    )
    return tf.strings.as_string(constant) + text


def save_in_signature(text):
    tf.raw_ops.SaveV2(
        prefix="written", tensor_names=["text"], shape_and_slices=[""], tensors=[text]
    )
    return text


def restore_in_signature(text):
    (found,) = tf.raw_ops.RestoreV2(
        prefix="/etc/other", tensor_names=["text"], shape_and_slices=[""], dtypes=[tf.string]
    )
    return text + found


@tf.function(input_signature=[TEXTS])
def upper(text):
    return tf.strings.upper(text)


def call_remotely(text):
    (answer,) = tf.raw_ops.RemoteCall(
        target="/job:worker/task:1", args=[text], Tout=[tf.string], f=upper.get_concrete_function()
    )
    return answer


def read_lines(text):
    lines = tf.data.TextLineDataset("/etc/hostname")
    return lines.reduce(text, lambda state, line: state + line)


def abort(text):
    tf.raw_ops.Abort(error_msg="over")
    return text


def read_descriptor(text):
    _, (found,) = tf.raw_ops.DecodeProtoV2(
        bytes=text,
        message_type="Any",
        field_names=["value"],
        output_types=[tf.string],
        descriptor_source="/etc/hostname",
    )
    return found[:, 0]


HOSTILE = {
    read_file: "ReadFile",
    write_file: "WriteFile",
    match_files: "MatchingFiles",
    call_python: "PyFunc",
    call_eager_python: "EagerPyFunc",
    print_to_file: "PrintV2",
    map_file: "ImmutableConst",
    save_in_signature: "SaveV2",
    restore_in_signature: "RestoreV2",
    call_remotely: "RemoteCall",
    read_lines: "TextLineDataset",
    abort: "Abort",
    read_descriptor: "DecodeProtoV2",
}


def saved_graph(function, directory):
    """Returns the graph of a SavedModel with a function as its only signature."""
    module = tf.Module()
    module.weight = tf.Variable(1.0)
    module.serve = tf.function(lambda text: {"text": function(text)}, input_signature=[TEXTS])
    return read_meta_graph(save_module(module, directory, module.serve))


@pytest.mark.parametrize("function", HOSTILE, ids=lambda function: function.__name__)
def test_check_ops_refuses_a_hostile_signature_without_running_it(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = refusal_of(saved_graph(function, tmp_path / "1"))
    assert f"{HOSTILE[function]} (in function __inference_" in message
    assert [entry.name for entry in tmp_path.iterdir()] == ["1"]


def test_check_ops_refuses_a_table_from_a_file(tmp_path):
    (tmp_path / "words").write_text("eins\nzwei\n")
    initializer = tf.lookup.TextFileInitializer(
        str(tmp_path / "words"),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(initializer, -1)
    module.serve = tf.function(module.table.lookup, input_signature=[TEXTS])
    meta_graph = read_meta_graph(save_module(module, tmp_path / "1", module.serve))
    assert "InitializeTableFromTextFileV2" in refusal_of(meta_graph)


def test_check_ops_allows_a_table_from_the_graph_that_does_not_change(tmp_path):
    initializer = tf.lookup.KeyValueTensorInitializer(["eins"], tf.constant([1], tf.int64))
    module = tf.Module()
    module.weight = tf.Variable(1.0)
    module.table = tf.lookup.StaticHashTable(initializer, -1)
    module.serve = tf.function(module.table.lookup, input_signature=[TEXTS])
    meta_graph = read_meta_graph(save_module(module, tmp_path / "1", module.serve))
    assert "HashTableV2" in check_ops(tmp_path, meta_graph).ops
    check_entry_points(tmp_path, meta_graph)
    module.more = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    module.serve = tf.function(module.more.lookup, input_signature=[TEXTS])
    meta_graph = read_meta_graph(save_module(module, tmp_path / "2", module.serve))
    assert "MutableHashTableV2" in refusal_of(meta_graph)


def in_branch(text):
    return tf.cond(tf.size(text) > 1000, lambda: read_file(text), lambda: text)


def in_loop(text):
    def body(number, state):
        return number + 1, in_branch(state)

    return tf.while_loop(lambda number, state: number < 2, body, [0, text])[1]


def in_case(text):
    return tf.switch_case(tf.size(text), [lambda: text, lambda: in_loop(text)])


def in_nested_functions(text):
    return tf.function(tf.function(in_case))(text)


def in_mapped_dataset(text):
    numbers = tf.data.Dataset.range(2).map(lambda number: read_file(tf.strings.as_string(number)))
    return numbers.reduce(text, lambda state, more: state + more)


def in_map_over_rows(text):
    return tf.map_fn(lambda row: read_file(row), text)


def in_gradient(text):
    @tf.custom_gradient
    def identity(value):
        return tf.identity(value), lambda upstream: upstream + tf.strings.to_number(read_file("1"))

    with tf.GradientTape() as tape:
        value = tf.cast(tf.strings.length(text), tf.float32)
        tape.watch(value)
        answer = identity(value)
    return tf.strings.as_string(tape.gradient(answer, value))


NESTED = (
    in_branch,
    in_loop,
    in_case,
    in_nested_functions,
    in_mapped_dataset,
    in_map_over_rows,
    in_gradient,
)


@pytest.mark.parametrize("function", NESTED, ids=lambda function: function.__name__)
def test_check_ops_finds_ops_in_nested_functions(function, tmp_path):
    assert "ReadFile (in function " in refusal_of(saved_graph(function, tmp_path / "1"))


def test_check_ops_finds_ops_in_uncalled_functions(tmp_path):
    module = tf.Module()
    module.serve = upper
    module.later = tf.function(read_file, input_signature=[TEXTS])
    meta_graph = read_meta_graph(save_module(module, tmp_path / "1", module.serve))
    assert "ReadFile (in function __inference_read_file" in refusal_of(meta_graph)


def test_check_ops_finds_ops_in_initializers_of_resources(tmp_path):
    class Resource(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self):
            return tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

        def _initialize(self):
            tf.io.write_file("written", "text")

    module = tf.Module()
    module.resource = Resource()
    handle = module.resource.resource_handle
    module.serve = tf.function(
        lambda text: tf.raw_ops.LookupTableFindV2(
            table_handle=handle, keys=text, default_value=tf.constant(0, tf.int64)
        ),
        input_signature=[TEXTS],
    )
    meta_graph = read_meta_graph(save_module(module, tmp_path / "1", module.serve))
    assert "WriteFile (in function __inference__initializer" in refusal_of(meta_graph)


@pytest.mark.parametrize(
    "op", ["_XlaHostComputeMlir", "XlaCustomCallV2", "XlaCallModule", "_HostSend", "Recv", "PyFunc"]
)
def test_check_ops_refuses_ops_that_leave_the_graph(written_export, op):
    assert op_def_registry.get(op) is not None
    meta_graph = read_meta_graph(written_export)
    meta_graph.graph_def.library.function[0].node_def.add(name="out", op=op)
    assert f"{op} (in function " in refusal_of(meta_graph)


def test_check_ops_names_the_first_of_many_unknown_ops(written_export):
    meta_graph = read_meta_graph(written_export)
    for number in range(7):
        meta_graph.graph_def.node.add(name=f"node{number}", op=f"Custom{number}\x1b[2J")
    message = refusal_of(meta_graph)
    assert "Custom0\\x1b[2J (in the graph), Custom1" in message
    assert "Custom4\\x1b[2J (in the graph) and 2 more. Do not load it" in message


def test_check_ops_refuses_a_function_called_as_an_op(written_export):
    meta_graph = read_meta_graph(written_export)
    name = meta_graph.graph_def.library.function[0].signature.name
    meta_graph.graph_def.node.add(name="call", op=name)
    assert f"{name} (in the graph)" in refusal_of(meta_graph)
