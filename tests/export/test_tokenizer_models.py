"""Tokenizer models in a graph: those of this package are accepted, every changed one is refused."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export.graph import Graph, NotConstantError, Tensor
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.export.tokenizer_models import (
    UnsafeModelError,
    check_wordpiece_model,
    model_problems,
)
from keras_transformer.text import WordPieceTokenizer
from tests.export.small_export import TEXTS, save_module

PIECES = ["the", "house", "##s", "##.", "t", "##h", "grün", "##e"]


@pytest.fixture(scope="module")
def saved_graph(tmp_path_factory):
    """The graph of a module that tokenizes inside of a branch and a loop."""
    tokenizer = WordPieceTokenizer(PIECES)
    module = tf.Module()

    def ids(text):
        def body(number, state):
            return number + 1, state + tf.reduce_sum(tokenizer.tokenize(text).values)

        return tf.while_loop(lambda number, state: number < 2, body, [0, 0])[1]

    def serve(text):
        total = tf.cond(tf.size(text) > 3, lambda: ids(text), lambda: -ids(text))
        return {"total": total[tf.newaxis]}

    module.serve = tf.function(serve, input_signature=[TEXTS])
    path = save_module(module, tmp_path_factory.mktemp("tokenizer") / "1", module.serve)
    return read_meta_graph(path)


@pytest.fixture
def meta_graph(saved_graph):
    copy = type(saved_graph)()
    copy.CopyFrom(saved_graph)
    return copy


def model_node(meta_graph):
    """Returns the constant that is the model: the only vector of bytes."""
    (node,) = (
        node
        for node in meta_graph.graph_def.node
        if node.op == "Const" and node.attr["dtype"].type == tf.uint8.as_datatype_enum
    )
    return node


def problems(meta_graph):
    return list(model_problems(Graph(meta_graph)))


def test_model_of_a_tokenizer_is_found_through_branches_and_loops(meta_graph):
    ops = [node.op for _, nodes in Graph(meta_graph).places() for node in nodes]
    assert "FastWordpieceTokenizeWithOffsets" in ops
    assert problems(meta_graph) == []


def test_every_changed_byte_of_a_model_is_refused(meta_graph):
    content = model_node(meta_graph).attr["value"].tensor.tensor_content
    check_wordpiece_model(content)
    random = np.random.default_rng(1)
    positions = {0, 4, len(content) - 1, *random.integers(0, len(content), 150).tolist()}
    for position in positions:
        changed = bytearray(content)
        changed[position] ^= 1 << int(random.integers(8))
        with pytest.raises(UnsafeModelError):
            check_wordpiece_model(bytes(changed))
    for length in (0, 3, 20, len(content) - 1):
        with pytest.raises(UnsafeModelError):
            check_wordpiece_model(content[:length])


def test_changed_model_in_a_graph_is_reported(meta_graph):
    tensor = model_node(meta_graph).attr["value"].tensor
    tensor.tensor_content = tensor.tensor_content[:-4] + b"\xff\xff\xff\xff"
    assert "FastWordpieceTokenizeWithOffsets" in problems(meta_graph)[0]


def test_model_of_another_shape_is_reported(meta_graph):
    model_node(meta_graph).attr["value"].tensor.tensor_shape.dim[0].size = 1 << 40
    assert f"for {1 << 40:,}" in problems(meta_graph)[0]


def test_model_of_another_caller_is_reported(meta_graph):
    """The function that tokenizes is called once more, with junk in place of the model."""
    model, nodes = model_node(meta_graph), meta_graph.graph_def.node
    call = next(node for node in nodes if model.name in node.input)
    junk, again = nodes.add(), nodes.add()
    junk.CopyFrom(model)
    junk.name = "junk"
    tensor = junk.attr["value"].tensor
    tensor.tensor_content = bytes(len(tensor.tensor_content))
    again.CopyFrom(call)
    again.name = "again"
    again.input[list(call.input).index(model.name)] = junk.name
    assert "cannot be trusted" in problems(meta_graph)[0]


def test_computed_tensors_are_not_constant(meta_graph):
    graph = Graph(meta_graph)
    (placeholder,) = (
        node.name for node in meta_graph.graph_def.node if node.name == "serving_default_text"
    )
    with pytest.raises(NotConstantError):
        graph.constants(Tensor(None, placeholder))
    with pytest.raises(NotConstantError):
        graph.constants(Tensor(None, "missing"))
