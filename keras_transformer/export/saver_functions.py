"""The two functions of a SavedModel that may use files: one restores the weights, one saves them.

TensorFlow writes both. They are recognized by their operations and by the path of every file name
through them: it must come from the function's argument, which the loader gives. No node may call
them but the saver's own, and nothing may use that node: no signature, initialization, collection,
object or other node.
"""

import collections
from collections.abc import Iterator
from typing import Any

from keras_transformer.export.graph import Graph, called, node_name

#: All operations of the function that restores the weights, and of the one that saves them.
RESTORING = frozenset({"AssignVariableOp", "Const", "Identity", "NoOp", "RestoreV2"})
SAVING = frozenset(
    [
        "Const",
        "DisableCopyOnRead",
        "Identity",
        "MergeV2Checkpoints",
        "NoOp",
        "Pack",
        "ReadVariableOp",
        "SaveV2",
        "Select",
        "ShardedFilename",
        "StaticRegexFullMatch",
        "StringJoin",
    ]
)

# What TensorFlow appends to the name of a checkpoint while it is written, and the pattern that
# decides between them.
_SUFFIXES = [b".part", b"_temp/part"]
_PATTERN = b"^s3://.*"


def saver_functions(meta_graph: Any, graph: Graph) -> set[str]:
    """Returns the names of the functions that may restore or save the weights.

    Args:
        meta_graph: a `MetaGraphDef`.
        graph: its `Graph`.
    """
    saver, nodes = meta_graph.saver_def, graph.nodes[None]
    is_clear = len(nodes) == len(meta_graph.graph_def.node)
    is_clear &= len(graph.functions) == len(meta_graph.graph_def.library.function)
    # A node with both roles would write files when weights are loaded.
    if not is_clear or node_name(saver.restore_op_name) == node_name(saver.save_tensor_name):
        return set()
    users = _users(meta_graph, graph)
    found = set()
    for tensor_name, has_shape in (
        (saver.restore_op_name, _restores),
        (saver.save_tensor_name, _saves),
    ):
        node = nodes.get(node_name(tensor_name))
        if node is None or node.op != "StatefulPartitionedCall" or users["node", node.name]:
            continue
        for name in called(node.attr):
            function = graph.functions.get(name)
            if function is None or users["function", name] != 1:
                continue
            # With this attribute, TensorFlow may run the function in place of another.
            if "api_implements" in function.attr:
                continue
            # The loader gives the file name to this placeholder, and to the first argument.
            is_named = list(node.input[:1]) == [node_name(saver.filename_tensor_name)]
            is_named &= nodes.get(next(iter(node.input), ""), node).op == "Placeholder"
            if is_named and has_shape(function):
                found.add(name)
    return found


def _restores(function: Any) -> bool:
    """Returns whether a function restores weights from the file that its argument names."""
    inner = _Function(function, RESTORING)
    reads = inner.nodes_of("RestoreV2")
    return inner.is_known and all(
        inner.source(read, 0) == inner.argument
        and all(inner.op_of(inner.source(read, number)) == "Const" for number in (1, 2))
        for read in reads
    )


def _saves(function: Any) -> bool:
    """Returns whether a function saves weights to the file that its argument names."""
    inner = _Function(function, SAVING)
    names = inner.nodes_of("ShardedFilename")
    joins, choices = inner.nodes_of("StringJoin"), inner.nodes_of("Select")
    matches = inner.nodes_of("StaticRegexFullMatch")
    if not inner.is_known or not len(joins) == len(choices) == len(matches) == 1:
        return False
    (join,), (choice,), (match,) = joins, choices, matches
    suffixes = [inner.constant(inner.source(choice, number)) for number in (1, 2)]
    return (
        [inner.source(join, number) for number in range(len(join.input))]
        == [inner.argument, choice.name]
        and inner.source(choice, 0) == match.name
        and suffixes == _SUFFIXES
        and match.attr["pattern"].s == _PATTERN
        and inner.source(match, 0) == inner.argument
        and all(inner.source(name, 0) == join.name for name in names)
        and all(
            inner.op_of(inner.source(save, 0)) == "ShardedFilename"
            and all(inner.op_of(inner.source(save, number)) == "Const" for number in (1, 2))
            for save in inner.nodes_of("SaveV2")
        )
        and all(
            _merges_what_was_written(inner, merge) for merge in inner.nodes_of("MergeV2Checkpoints")
        )
    )


def _merges_what_was_written(inner: "_Function", merge: Any) -> bool:
    """Returns whether a checkpoint is merged from the function's own files into its argument."""
    pack = inner.nodes.get(inner.source(merge, 0) or "")
    return (
        pack is not None
        and pack.op == "Pack"
        and all(
            inner.op_of(inner.source(pack, number)) == "ShardedFilename"
            for number in range(pack.attr["N"].i)
        )
        and inner.source(merge, 1) == inner.argument
    )


class _Function:
    """The nodes of a function, and where their inputs come from.

    Args:
        function: a `FunctionDef`.
        ops: the operations that it may have.
    """

    def __init__(self, function: Any, ops: frozenset[str]) -> None:
        self.nodes: dict[str, Any] = {node.name: node for node in function.node_def}
        arguments = [argument.name for argument in function.signature.input_arg]
        self.argument: str | None = arguments[0] if arguments else None
        self.is_known: bool = (
            len(self.nodes) == len(function.node_def)
            and not self.nodes.keys() & set(arguments)
            and all(node.op in ops for node in function.node_def)
        )

    def nodes_of(self, op: str) -> list[Any]:
        return [node for node in self.nodes.values() if node.op == op]

    def op_of(self, name: str | None) -> str | None:
        return None if name is None or name not in self.nodes else self.nodes[name].op

    def constant(self, name: str | None) -> bytes | None:
        """Returns the only string of a constant."""
        if name is None or self.op_of(name) != "Const":
            return None
        values = self.nodes[name].attr["value"].tensor.string_val
        return values[0] if len(values) == 1 else None

    def source(self, node: Any, number: int) -> str | None:
        """Returns the node or argument from which an input comes; `Identity` is followed."""
        for _ in range(len(self.nodes) + 1):
            if number >= len(node.input) or node.input[number].startswith("^"):
                return None
            name = node_name(node.input[number])
            if self.op_of(name) != "Identity":
                return name
            node, number = self.nodes[name], 0
        return None


def _users(meta_graph: Any, graph: Graph) -> collections.Counter[tuple[str, str]]:
    """Counts the uses of each node of the graph, ("node", name), and each ("function", name)."""
    users: collections.Counter[tuple[str, str]] = collections.Counter()
    graph_def, objects = meta_graph.graph_def, meta_graph.object_graph_def
    users.update(("node", node_name(name)) for node in graph_def.node for name in node.input)
    users.update(("node", name) for name in _named_tensors(meta_graph))
    for _, nodes in graph.places():
        for node in nodes:
            # A function can be called by its name too, like an operation.
            users.update(("function", name) for name in [node.op, *called(node.attr)])
    for function in graph_def.library.function:
        users.update(("function", name) for name in called(function.attr))
    library = graph_def.library
    users.update(("function", gradient.gradient_func) for gradient in library.gradient)
    users.update(("function", each.gradient_func) for each in library.registered_gradients)
    users.update(("function", name) for name in objects.concrete_functions)
    for node in objects.nodes:
        users["function", node.bare_concrete_function.concrete_function_name] += 1
        users["function", node.captured_tensor.concrete_function] += 1
        users.update(("function", name) for name in node.function.concrete_functions)
        users["node", node.constant.operation] += 1
    return users


def _named_tensors(meta_graph: Any) -> Iterator[str]:
    """Yields the nodes that signatures, initialization and collections of a graph name."""
    for signature in meta_graph.signature_def.values():
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            yield from map(node_name, _tensor_names(tensor))
    for collection in meta_graph.collection_def.values():
        yield from map(node_name, collection.node_list.value)
    for asset in meta_graph.asset_file_def:
        yield node_name(asset.tensor_info.name)


def _tensor_names(tensor: Any) -> list[str]:
    """Returns the names in a `TensorInfo`, which may describe a sparse or composite tensor."""
    sparse = tensor.coo_sparse
    names = [sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name]
    for component in tensor.composite_tensor.components:
        names += _tensor_names(component)
    return [tensor.name, *names]
