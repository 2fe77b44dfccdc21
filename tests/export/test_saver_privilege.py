"""Only the functions that save and restore the weights may use checkpoint operations."""

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
    assert message.startswith("nowhere: refused: ops that an export may not hold")
    assert "\n" not in message
    return message


def test_check_ops_counts_the_saver_separately(written_export):
    ops = check_ops(written_export, read_meta_graph(written_export))
    assert {"SaveV2", "MergeV2Checkpoints", "RestoreV2"} <= ops.saver_ops.keys()
    assert not {"SaveV2", "MergeV2Checkpoints", "RestoreV2"} & ops.ops.keys()
    assert {"StringUpper", "ReadVariableOp", "VarHandleOp"} <= ops.ops.keys()
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


def test_check_ops_refuses_a_signature_that_depends_on_the_saver(meta_graph):
    saving = saver_node(meta_graph, meta_graph.saver_def.save_tensor_name)
    output = meta_graph.signature_def["serving_default"].outputs["text"]
    saver_node(meta_graph, output.name).input.append(f"^{saving.name}")
    assert "SaveV2 (in function " in refusal_of(meta_graph)


def test_check_ops_refuses_an_output_that_is_the_saver(meta_graph):
    output = meta_graph.signature_def["serving_default"].outputs["text"]
    output.name = meta_graph.saver_def.save_tensor_name
    assert "SaveV2" in refusal_of(meta_graph)


def test_check_ops_refuses_a_composite_output_that_is_the_saver(meta_graph):
    output = meta_graph.signature_def["serving_default"].outputs["more"]
    output.composite_tensor.components.add(name=meta_graph.saver_def.save_tensor_name)
    assert "SaveV2" in refusal_of(meta_graph)


def test_check_ops_refuses_a_sparse_output_that_is_the_saver(meta_graph):
    output = meta_graph.signature_def["serving_default"].outputs["more"]
    output.coo_sparse.indices_tensor_name = meta_graph.saver_def.save_tensor_name
    assert "SaveV2" in refusal_of(meta_graph)


@pytest.mark.parametrize("key", ["saved_model_main_op", "legacy_init_op"])
def test_check_ops_refuses_an_initialization_that_is_the_saver(meta_graph, key):
    node = saver_node(meta_graph, meta_graph.saver_def.save_tensor_name)
    meta_graph.collection_def[key].node_list.value.append(node.name)
    assert "SaveV2" in refusal_of(meta_graph)


def test_check_ops_refuses_a_node_that_calls_the_saver(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    body = saver_function(meta_graph, meta_graph.signature_def["encode"].outputs["embedding"].name)
    call = body.node_def.add(name="call", op="StatefulPartitionedCall")
    call.attr["f"].func.name = function.signature.name
    assert "SaveV2" in refusal_of(meta_graph)


def test_check_ops_refuses_a_branch_that_is_the_saver(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    node = meta_graph.graph_def.node.add(name="call", op="Case")
    node.attr["branches"].list.func.add(name=function.signature.name)
    assert "RestoreV2" in refusal_of(meta_graph)


def test_check_ops_refuses_an_object_that_restores_the_saver(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    meta_graph.object_graph_def.concrete_functions[function.signature.name].SetInParent()
    assert "SaveV2" in refusal_of(meta_graph)


def test_check_ops_refuses_a_saver_that_implements_an_api(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    function.attr["api_implements"].s = b"upper"
    assert "SaveV2" in refusal_of(meta_graph)


@pytest.mark.parametrize("op", ["SaveV2", "WriteFile", "MergeV2Checkpoints"])
def test_check_ops_refuses_writing_while_weights_are_restored(meta_graph, op):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    function.node_def.add(name="more", op=op)
    assert f"{op} (in function __inference__traced_restore" in refusal_of(meta_graph)


def test_check_ops_refuses_one_node_for_saving_and_restoring(meta_graph):
    meta_graph.saver_def.restore_op_name = meta_graph.saver_def.save_tensor_name.partition(":")[0]
    assert "SaveV2" in refusal_of(meta_graph)


def test_check_ops_refuses_restoring_from_files_of_the_graph(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    (restoring,) = (node for node in function.node_def if node.op == "RestoreV2")
    function.node_def.add(name="elsewhere", op="Const")
    restoring.input[0] = "elsewhere:output:0"
    assert "RestoreV2" in refusal_of(meta_graph)


def test_check_ops_refuses_a_saver_without_the_file_placeholder(meta_graph):
    node = saver_node(meta_graph, meta_graph.saver_def.restore_op_name)
    meta_graph.graph_def.node.add(name="elsewhere", op="Const")
    node.input[0] = "elsewhere"
    assert "RestoreV2" in refusal_of(meta_graph)


def test_check_ops_refuses_two_functions_of_one_name(meta_graph):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    again = meta_graph.graph_def.library.function.add()
    again.CopyFrom(function)
    assert "RestoreV2" in refusal_of(meta_graph)


@pytest.mark.parametrize("inputs", [[], ["elsewhere"]])
def test_check_ops_refuses_restoring_without_file_names(meta_graph, inputs):
    function = saver_function(meta_graph, meta_graph.saver_def.restore_op_name)
    (restoring,) = (node for node in function.node_def if node.op == "RestoreV2")
    restoring.input[:] = inputs
    assert "RestoreV2" in refusal_of(meta_graph)


def test_check_ops_refuses_writing_in_any_function_of_the_restorer(meta_graph):
    """The function that restores weights may call others, but none that writes."""
    restoring = saver_node(meta_graph, meta_graph.saver_def.restore_op_name)
    saving = saver_function(meta_graph, meta_graph.saver_def.save_tensor_name)
    restoring.attr["g"].func.name = saving.signature.name
    assert "SaveV2" in refusal_of(meta_graph)


def test_check_ops_refuses_saver_ops_outside_functions(meta_graph):
    meta_graph.graph_def.node.add(name="saving", op="SaveV2")
    meta_graph.saver_def.save_tensor_name = "saving:0"
    assert "SaveV2 (in the graph)" in refusal_of(meta_graph)
