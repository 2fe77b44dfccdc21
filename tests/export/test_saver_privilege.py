"""Two functions of a graph may open checkpoints. No other part of it can borrow that."""

import pathlib

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.saved_model_file import read_meta_graph

NOWHERE = pathlib.Path("nowhere")


def refusal_of(meta_graph):
    with pytest.raises(UserError) as refusal:
        check_ops(NOWHERE, meta_graph)
    message = str(refusal.value)
    assert message.startswith("nowhere: refused: ops that an export may not hold, as they could")
    assert "\n" not in message
    return message


def test_the_saver_is_told_apart(written_export):
    ops = check_ops(written_export, read_meta_graph(written_export))
    assert {"SaveV2", "MergeV2Checkpoints", "RestoreV2"} <= ops.saver_ops.keys()
    assert not {"SaveV2", "MergeV2Checkpoints", "RestoreV2"} & ops.ops.keys()
    assert {"StringUpper", "ResourceGather", "VarHandleOp"} <= ops.ops.keys()
    # `sample`, `serving_default` and each of their wrappers.
    assert ops.ops["StringUpper"] == 3


@pytest.fixture
def meta_graph(written_export):
    return read_meta_graph(written_export)


def saver_node(meta_graph, tensor_name):
    name = tensor_name.partition(":")[0]
    return next(node for node in meta_graph.graph_def.node if node.name == name)


def saver_function(meta_graph, tensor_name):
    name = saver_node(meta_graph, tensor_name).attr["f"].func.name
    functions = meta_graph.graph_def.library.function
    return next(function for function in functions if function.signature.name == name)


def test_a_signature_that_waits_for_the_saver(meta_graph):
    saving = saver_node(meta_graph, meta_graph.saver_def.save_tensor_name)
    output = meta_graph.signature_def["serving_default"].outputs["text"]
    saver_node(meta_graph, output.name).input.append(f"^{saving.name}")
    assert "SaveV2 (in function " in refusal_of(meta_graph)


def test_a_signature_that_is_the_saver(meta_graph):
    output = meta_graph.signature_def["serving_default"].outputs["text"]
    output.name = meta_graph.saver_def.save_tensor_name
    assert "SaveV2" in refusal_of(meta_graph)


def test_a_composite_output_that_is_the_saver(meta_graph):
    output = meta_graph.signature_def["serving_default"].outputs["more"]
    output.composite_tensor.components.add(name=meta_graph.saver_def.save_tensor_name)
    assert "SaveV2" in refusal_of(meta_graph)


def test_a_sparse_output_that_is_the_saver(meta_graph):
    output = meta_graph.signature_def["serving_default"].outputs["more"]
    output.coo_sparse.indices_tensor_name = meta_graph.saver_def.save_tensor_name
    assert "SaveV2" in refusal_of(meta_graph)


@pytest.mark.parametrize("key", ["saved_model_main_op", "legacy_init_op"])
def test_an_initialization_that_is_the_saver(meta_graph, key):
    node = saver_node(meta_graph, meta_graph.saver_def.save_tensor_name)
    meta_graph.collection_def[key].node_list.value.append(node.name)
    assert "SaveV2" in refusal_of(meta_graph)


def test_a_node_that_calls_the_savers_function(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    body = saver_function(meta_graph, meta_graph.signature_def["encode"].outputs["embedding"].name)
    call = body.node_def.add(name="call", op="StatefulPartitionedCall")
    call.attr["f"].func.name = function.signature.name
    assert "SaveV2" in refusal_of(meta_graph)


def test_a_branch_that_is_the_savers_function(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    node = meta_graph.graph_def.node.add(name="call", op="Case")
    node.attr["branches"].list.func.add(name=function.signature.name)
    assert "RestoreV2" in refusal_of(meta_graph)


def test_an_object_that_brings_the_savers_function_back(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    meta_graph.object_graph_def.concrete_functions[function.signature.name].SetInParent()
    assert "SaveV2" in refusal_of(meta_graph)


def test_a_function_that_stands_in_for_another(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    function.attr["api_implements"].s = b"upper"
    assert "SaveV2" in refusal_of(meta_graph)


@pytest.mark.parametrize("op", ["SaveV2", "WriteFile", "MergeV2Checkpoints"])
def test_loading_weights_cannot_write(meta_graph, op):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    function.node_def.add(name="more", op=op)
    assert f"{op} (in function __inference__traced_restore" in refusal_of(meta_graph)


def test_loading_weights_cannot_write_under_the_name_of_saving(meta_graph):
    meta_graph.saver_def.restore_op_name = meta_graph.saver_def.save_tensor_name.partition(":")[0]
    assert "SaveV2" in refusal_of(meta_graph)


def test_weights_come_from_the_files_that_the_server_names(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    (restoring,) = (node for node in function.node_def if node.op == "RestoreV2")
    function.node_def.add(name="elsewhere", op="Const")
    restoring.input[0] = "elsewhere:output:0"
    assert "RestoreV2" in refusal_of(meta_graph)


def test_the_server_is_asked_for_the_name(meta_graph):
    node = saver_node(meta_graph, meta_graph.saver_def.restore_op_name)
    meta_graph.graph_def.node.add(name="elsewhere", op="Const")
    node.input[0] = "elsewhere"
    assert "RestoreV2" in refusal_of(meta_graph)


def test_a_second_function_of_the_savers_name(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    again = meta_graph.graph_def.library.function.add()
    again.CopyFrom(function)
    assert "RestoreV2" in refusal_of(meta_graph)


@pytest.mark.parametrize("inputs", [[], ["elsewhere"]])
def test_restoring_without_a_name_of_files(meta_graph, inputs):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    (restoring,) = (node for node in function.node_def if node.op == "RestoreV2")
    restoring.input[:] = inputs
    assert "RestoreV2" in refusal_of(meta_graph)


def test_a_saver_that_calls_two_functions(meta_graph):
    """Both are its own: what loads weights may still not write."""
    restoring = saver_node(meta_graph, meta_graph.saver_def.restore_op_name)
    saving = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    restoring.attr["g"].func.name = saving.signature.name
    assert "SaveV2" in refusal_of(meta_graph)


def test_the_savers_ops_outside_functions(meta_graph):
    meta_graph.graph_def.node.add(name="saving", op="SaveV2")
    meta_graph.saver_def.save_tensor_name = "saving:0"
    assert "SaveV2 (in the graph)" in refusal_of(meta_graph)
