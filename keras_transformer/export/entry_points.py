"""Checks of what loaders run or create: only what our exports contain is allowed.

TensorFlow has two loaders. The newer one, `tf.saved_model.load`, creates the objects of the graph
and restores their weights. The older one, in servers and for graphs without objects, runs nodes of
the graph: those that restore the weights, initialize tables and read assets, and whatever the
collections name. The only things that either may find are variables, tables in memory, functions,
restoring the weights from the file that the loader names, and an initialization that computes
constants.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

from keras_transformer.export.allowed_ops import SAVER_OPS
from keras_transformer.export.damage import refused
from keras_transformer.export.graph import INTERNAL, Graph, called, node_name
from keras_transformer.export.saver_functions import saver_functions

_INITIALIZATION = "__saved_model_init_op"
_MAIN_OP = "saved_model_main_op"

#: Operations that initialization may reach, through the functions that it calls: it creates tables
#: and tokenizers, and fills tables with constants.
INITIALIZING: frozenset[str] = frozenset(
    [
        "Const",
        "HashTableV2",
        "Identity",
        "LookupTableImportV2",
        "NoOp",
        "PartitionedCall",
        "SentencepieceOp",
        "StatefulPartitionedCall",
    ]
)

# Kinds of objects, and the classes of those that Python defines.
_KINDS = frozenset(
    [
        "bare_concrete_function",
        "captured_tensor",
        "constant",
        "function",
        "resource",
        "user_object",
        "variable",
    ]
)
_CLASSES = frozenset(
    [
        "_generic_user_object",
        "signature_map",
        "trackable_dict_wrapper",
        "trackable_list_wrapper",
        "trackable_tuple_wrapper",
    ]
)
_REGISTERED_CLASSES = frozenset(["", "tf.StaticHashTable", "tf.TrackableConstant"])
# Kinds of values in the descriptions of a function's arguments and results.
_VALUES = frozenset(
    [
        "bool_value",
        "dict_value",
        "float64_value",
        "int64_value",
        "list_value",
        "named_tuple_value",
        "none_value",
        "string_value",
        "tensor_spec_value",
        "tuple_value",
        None,
    ]
)
_CUSTOM_GRADIENT = re.compile("CustomGradient-[0-9]+")


def check_entry_points(directory: str | os.PathLike[str], meta_graph: Any) -> None:
    """Raises a `UserError` if a loader would run or create what our exports do not have.

    Args:
        directory: directory of the export, for messages.
        meta_graph: from `read_meta_graph`.
    """
    problem = next(entry_point_problems(meta_graph), None)
    if problem is not None:
        raise refused(
            directory,
            f"refused: {problem}. `keras-transformer export` does not write this.",
            "Do not load it; export the model with `keras-transformer export`.",
        )


def entry_point_problems(meta_graph: Any) -> Iterator[str]:
    """Yields a clause for each thing that a loader would run or create but must not.

    Args:
        meta_graph: a `MetaGraphDef`.
    """
    if not meta_graph.object_graph_def.nodes:
        yield "it has no objects, so TensorFlow would run its collections when loading it"
    if meta_graph.asset_file_def:
        yield "it has assets, which are files that a loader reads"
    if meta_graph.meta_info_def.HasField("any_info") or meta_graph.meta_info_def.function_aliases:
        yield "its description has unknown parts"
    graph = Graph(meta_graph)
    yield from _initialization_problems(meta_graph, graph)
    yield from _signature_problems(meta_graph, graph)
    yield from _other_function_problems(meta_graph, graph)
    yield from _saver_problems(meta_graph, graph)
    yield from _object_problems(meta_graph, graph)
    library = meta_graph.graph_def.library
    if library.gradient:
        yield "it replaces gradients of functions"
    for each in library.registered_gradients:
        is_custom = _CUSTOM_GRADIENT.fullmatch(each.registered_op_type) is not None
        if not is_custom or each.gradient_func not in graph.functions:
            yield f"it registers a gradient of {each.registered_op_type!r}"


def _initialization_problems(meta_graph: Any, graph: Graph) -> Iterator[str]:
    """Checks the only collection, and what initialization runs."""
    others = sorted(meta_graph.collection_def.keys() - {_MAIN_OP})
    if others:
        yield f"it has the collection {others[0]!r}"
    roots = set()
    if _MAIN_OP in meta_graph.collection_def:
        collection = meta_graph.collection_def[_MAIN_OP]
        if collection.WhichOneof("kind") != "node_list":
            yield f"its collection {_MAIN_OP!r} names no nodes"
        roots.update(map(node_name, collection.node_list.value))
    if _INITIALIZATION in meta_graph.signature_def:
        signature = meta_graph.signature_def[_INITIALIZATION]
        if signature.inputs:
            yield "its initialization has inputs"
        roots.update(node_name(tensor.name) for tensor in signature.outputs.values())
    for place, name in sorted(graph.reachable(roots), key=str):
        node = graph.nodes[place].get(name)
        if node is None:
            yield f"its initialization runs {name!r}, which does not exist"
        elif node.op not in INITIALIZING:
            yield f"its initialization runs {node.op}"


def _signature_problems(meta_graph: Any, graph: Graph) -> Iterator[str]:
    """Checks that signatures feed placeholders and fetch what functions return."""
    for name, signature in sorted(meta_graph.signature_def.items()):
        if name == _INITIALIZATION:
            continue
        if name.startswith(INTERNAL):
            yield f"it has the signature {name!r}"
        if signature.defaults:
            yield f"the signature {name!r} has default values"
        sides = (
            (signature.inputs, ("Placeholder",)),
            (signature.outputs, ("PartitionedCall", "StatefulPartitionedCall")),
        )
        for tensors, ops in sides:
            for tensor in tensors.values():
                node = graph.nodes[None].get(node_name(tensor.name))
                if tensor.WhichOneof("encoding") != "name" or node is None or node.op not in ops:
                    yield f"the signature {name!r} names a tensor that is not a {' or '.join(ops)}"
        roots = {node_name(tensor.name) for tensor in signature.outputs.values()}
        reached = {
            graph.nodes[place][node].op
            for place, node in graph.reachable(roots)
            if node in graph.nodes[place]
        }
        for op in sorted(reached & SAVER_OPS):
            yield f"the signature {name!r} reaches {op}"


def _other_function_problems(meta_graph: Any, graph: Graph) -> Iterator[str]:
    """Checks that both loaders call the same function for a signature.

    The newer loader finds it in the objects, the older one in the graph.
    """
    objects = meta_graph.object_graph_def.nodes
    by_object: dict[str, str] = {}
    for root in objects[:1]:
        numbers = [each.node_id for each in root.children if each.local_name == "signatures"]
        for number in numbers[:1] if all(0 <= each < len(objects) for each in numbers) else []:
            by_object = {
                each.local_name: objects[each.node_id].bare_concrete_function.concrete_function_name
                for each in objects[number].children
                if 0 <= each.node_id < len(objects)
            }
    by_graph: dict[str, set[str]] = {}
    for name, signature in meta_graph.signature_def.items():
        if not name.startswith(INTERNAL):
            nodes = {node_name(tensor.name) for tensor in signature.outputs.values()}
            found = [graph.nodes[None][each] for each in nodes if each in graph.nodes[None]]
            by_graph[name] = {each for node in found for each in called(node.attr)}
    if {name: {function} for name, function in by_object.items()} != by_graph:
        yield "the signatures of its objects are not those of its graph"


def _saver_problems(meta_graph: Any, graph: Graph) -> Iterator[str]:
    """Checks that the saver's two functions are as TensorFlow writes them."""
    saver, nodes = meta_graph.saver_def, graph.nodes[None]
    file_name = nodes.get(node_name(saver.filename_tensor_name))
    if file_name is None or file_name.op != "Placeholder" or saver.sharded or saver.version != 2:
        yield "its saver is not that of TensorFlow 2"
    if len(saver_functions(meta_graph, graph)) != 2:
        yield "the functions that save and restore its weights are not as TensorFlow writes them"


def _object_problems(meta_graph: Any, graph: Graph) -> Iterator[str]:
    objects = meta_graph.object_graph_def
    count = len(objects.nodes)
    for number, node in enumerate(objects.nodes):
        kind = node.WhichOneof("kind")
        what = f"its object {number}"
        if kind not in _KINDS:
            yield f"{what} is of the kind {kind}"
        if kind == "user_object" and (
            node.user_object.identifier not in _CLASSES or node.user_object.metadata
        ):
            yield f"{what} is of the class {node.user_object.identifier!r}"
        if node.registered_name not in _REGISTERED_CLASSES or node.HasField(
            "serialized_user_proto"
        ):
            yield f"{what} is of the registered class {node.registered_name!r}"
        if node.registered_saver or node.saveable_objects or node.slot_variables:
            yield f"{what} restores itself"
        references = [each.node_id for each in (*node.children, *node.dependencies)]
        if not all(0 <= each < count for each in references):
            yield f"{what} refers to an object that does not exist"
        if kind == "variable":
            variable = node.variable
            if variable.device or variable.experimental_distributed_variable_components:
                yield f"{what} is a variable of another device"
        elif kind == "resource" and node.resource.device:
            yield f"{what} is on another device"
        elif kind == "constant":
            constant = graph.nodes[None].get(node.constant.operation)
            if constant is None or constant.op != "Const":
                yield f"{what} is not a constant"
        elif kind == "function":
            yield from _function_problems(what, node.function.function_spec)
            if not all(name in graph.functions for name in node.function.concrete_functions):
                yield f"{what} calls a function that does not exist"
        elif kind == "bare_concrete_function":
            yield from _function_problems(what, node.bare_concrete_function.function_spec)
            if node.bare_concrete_function.concrete_function_name not in graph.functions:
                yield f"{what} calls a function that does not exist"
    for name, function in objects.concrete_functions.items():
        if name not in graph.functions:
            yield f"it describes a function {name!r} that does not exist"
        if not all(0 <= each < count for each in function.bound_inputs):
            yield f"the function {name!r} captures an object that does not exist"
        for value in (function.canonicalized_input_signature, function.output_signature):
            yield from _value_problems(name, value)


def _function_problems(what: str, spec: Any) -> Iterator[str]:
    for value in (spec.fullargspec, spec.input_signature):
        yield from _value_problems(what, value)


def _value_problems(what: str, value: Any) -> Iterator[str]:
    """Yields values that a loader would make instances of Python classes from."""
    kind = value.WhichOneof("kind")
    if kind not in _VALUES:
        yield f"{what} is described with a {kind}"
    for inner in (*value.list_value.values, *value.tuple_value.values):
        yield from _value_problems(what, inner)
    for inner in value.dict_value.fields.values():
        yield from _value_problems(what, inner)
    for inner in value.named_tuple_value.values:
        yield from _value_problems(what, inner.value)
