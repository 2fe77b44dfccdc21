"""Which ops a SavedModel holds, told from the protobuf, before anything of it is loaded.

Every node of the graph and of every function is looked at, whether something calls it or not. Two
functions may hold more than others: those that restore and save the weights, which have to open
files. They may do so where TensorFlow put them, called by the saver's two nodes, and there only.
"""

import collections
from typing import NamedTuple

from keras_transformer.export.allowed_ops import (
    ALLOWED,
    ALLOWED_WHERE_WEIGHTS_ARE_RESTORED,
    ALLOWED_WHERE_WEIGHTS_ARE_SAVED,
    outside_core,
)
from keras_transformer.export.damage import refused

# Of ops that are refused, so many are named.
_NAMED = 5


class GraphOps(NamedTuple):
    """The ops of a graph.

    Attributes:
        ops: how many nodes there are of each, a dictionary by name, without the saver's.
        saver_ops: the same for the functions that restore and save the weights.
        outside_core: the names of those that need tensorflow-text.
    """

    ops: dict
    saver_ops: dict
    outside_core: list


def check_ops(directory, meta_graph):
    """Returns the `GraphOps` of an export; a `UserError` names those that are not allowed.

    Args:
        directory: of the export, for messages.
        meta_graph: from `read_meta_graph`.
    """
    privileged = _privileged_functions(meta_graph)
    ops, saver_ops, foreign = collections.Counter(), collections.Counter(), {}
    for place, nodes in _places(meta_graph.graph_def):
        counted = saver_ops if place in privileged else ops
        allowed = privileged.get(place, ALLOWED)
        for node in nodes:
            counted[node.op] += 1
            if node.op not in allowed:
                foreign.setdefault(node.op, place)
    if foreign:
        raise refused(directory, _described(foreign))
    return GraphOps(dict(ops), dict(saver_ops), outside_core([*ops, *saver_ops]))


def _described(foreign):
    named = [
        f"{op} (in {f'function {place}' if place else 'the graph'})"
        for op, place in sorted(foreign.items())
    ]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return (
        f"refused: ops that an export may not hold, as they could reach files, the network or "
        f"other programs: {', '.join(named[:_NAMED])}{more}. Do not load it; export the model with "
        "`keras-transformer export`."
    )


def _places(graph):
    """Yields name and nodes of every function, and None and the nodes of the graph itself."""
    yield None, graph.node
    for function in graph.library.function:
        yield function.signature.name, function.node_def


def _privileged_functions(meta_graph):
    """Returns what the functions that restore and save the weights may hold, by name.

    A function has the privilege if the saver's node calls it and nothing else can: no other node,
    no signature, no initialisation and no object that `tf.saved_model.load` brings back.
    """
    saver, graph = meta_graph.saver_def, meta_graph.graph_def
    nodes = {node.name: node for node in graph.node}
    functions = {function.signature.name: function for function in graph.library.function}
    is_clear = len(nodes) == len(graph.node) and len(functions) == len(graph.library.function)
    # One node for both would write files when weights are loaded.
    if not is_clear or _node_name(saver.restore_op_name) == _node_name(saver.save_tensor_name):
        return {}
    users = _users(meta_graph)
    privileged = {}
    for tensor_name, allowed in (
        (saver.restore_op_name, ALLOWED_WHERE_WEIGHTS_ARE_RESTORED),
        (saver.save_tensor_name, ALLOWED_WHERE_WEIGHTS_ARE_SAVED),
    ):
        node = nodes.get(_node_name(tensor_name))
        if node is None or users[("node", node.name)]:
            continue
        for name in _called(node.attr):
            if name not in functions or users[("function", name)] != 1:
                continue
            # With this attribute TensorFlow may run a function in place of another.
            if "api_implements" in functions[name].attr:
                continue
            if _reads_what_the_server_names(saver, node, functions[name]):
                privileged[name] = allowed
    return privileged


def _reads_what_the_server_names(saver, node, function):
    """Whether `RestoreV2` gets its files from the saver's placeholder, not from the graph."""
    restoring = [inner for inner in function.node_def if inner.op == "RestoreV2"]
    if not restoring:
        return True
    prefix = [argument.name for argument in function.signature.input_arg[:1]]
    return list(node.input[:1]) == [_node_name(saver.filename_tensor_name)] and all(
        list(inner.input[:1]) == prefix for inner in restoring
    )


def _users(meta_graph):
    """Counts what uses each node of the graph, ("node", name), and each ("function", name)."""
    users = collections.Counter()
    graph = meta_graph.graph_def
    users.update(("node", _node_name(name)) for node in graph.node for name in node.input)
    users.update(("node", name) for name in _named_tensors(meta_graph))
    for _, nodes in _places(graph):
        for node in nodes:
            # A function can be called by its name too, as if it were an op.
            users.update(("function", name) for name in [node.op, *_called(node.attr)])
    for function in graph.library.function:
        users.update(("function", name) for name in _called(function.attr))
    users.update(("function", gradient.gradient_func) for gradient in graph.library.gradient)
    users.update(("function", name) for name in meta_graph.object_graph_def.concrete_functions)
    return users


def _named_tensors(meta_graph):
    """Yields the nodes that signatures, initialisation and collections of a graph name."""
    for signature in meta_graph.signature_def.values():
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            yield from map(_node_name, _tensor_names(tensor))
    for collection in meta_graph.collection_def.values():
        yield from map(_node_name, collection.node_list.value)


def _tensor_names(tensor):
    """The names in a `TensorInfo`, which may describe a sparse or a composite tensor."""
    sparse = tensor.coo_sparse
    names = [sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name]
    for component in tensor.composite_tensor.components:
        names += _tensor_names(component)
    return [tensor.name, *names]


def _called(attributes):
    """Yields the names of functions in the attributes of a node, at any depth."""
    for value in attributes.values():
        for function in [value.func, *value.list.func]:
            if function.name:
                yield function.name
            yield from _called(function.attr)


def _node_name(tensor_name):
    """The node of a tensor "name:0" or of a control input "^name"."""
    return tensor_name.removeprefix("^").partition(":")[0]
