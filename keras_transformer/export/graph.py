"""A graph with its functions, read from the protocol buffers and never run.

Finds what a tensor can be without running anything: `Graph.constants` follows a tensor through
functions, branches, loops and captured tensors back to the constants from which it comes.
"""

import collections
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

#: Operations that run functions of the same graph, and the attributes that name them.
CALLS: Mapping[str, tuple[str, ...]] = {
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
    "While": ("cond", "body"),
    "StatelessWhile": ("cond", "body"),
}
_LOOPS = ("While", "StatelessWhile")
# The first input of these is the condition, or the number of the branch.
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")

#: TensorFlow's own entries among the signatures begin so; users cannot call them.
INTERNAL = "__saved_model_"

# Names of dtypes that protocol buffers spell differently.
_DTYPE_NAMES = {"float": "float32", "double": "float64", "half": "float16"}


class Tensor(NamedTuple):
    """A tensor of the graph or of one of its functions.

    Attributes:
        place: name of the function; None for the graph itself.
        node: name of the node or of the function's argument.
        output: name of the node's output, "" if there is one output or it is not given.
        number: index of the tensor in that output.
    """

    place: str | None
    node: str
    output: str = ""
    number: int = 0


class SignatureFound(NamedTuple):
    """A signature of a graph.

    Attributes:
        inputs: dtype and number of axes of each input, by name; None axes if it is unknown.
        outputs: the same of the outputs.
    """

    inputs: dict[str, tuple[str, int | None]]
    outputs: dict[str, tuple[str, int | None]]


class NotConstantError(Exception):
    """Raised by `Graph.constants` for a tensor that does not come from constants alone."""


class Graph:
    """A graph with its functions.

    Args:
        meta_graph: a `MetaGraphDef`.

    Attributes:
        functions: the functions by name.
    """

    def __init__(self, meta_graph: Any) -> None:
        self._meta_graph = meta_graph
        library = meta_graph.graph_def.library.function
        self.functions: dict[str, Any] = {each.signature.name: each for each in library}

    def places(self) -> Iterator[tuple[str | None, Any]]:
        """Yields None and the nodes of the graph, then the name and nodes of every function."""
        yield None, self._meta_graph.graph_def.node
        for function in self._meta_graph.graph_def.library.function:
            yield function.signature.name, function.node_def

    @functools.cached_property
    def nodes(self) -> dict[str | None, dict[str, Any]]:
        """The nodes by place and name."""
        return {place: {node.name: node for node in nodes} for place, nodes in self.places()}

    @functools.cached_property
    def callers(self) -> dict[str, list[tuple[str | None, Any]]]:
        """The places and nodes that call each function, by its name."""
        callers: dict[str, list[tuple[str | None, Any]]] = {}
        for place, nodes in self.places():
            for node in nodes:
                if node.op in CALLS:
                    for name in set(called(node.attr)):
                        callers.setdefault(name, []).append((place, node))
        return callers

    @functools.cached_property
    def _captures(self) -> dict[str, list[Any]]:
        """The objects whose tensors each function captures, by its name."""
        objects = self._meta_graph.object_graph_def
        return {
            name: [objects.nodes[number] for number in function.bound_inputs]
            for name, function in objects.concrete_functions.items()
            if all(0 <= number < len(objects.nodes) for number in function.bound_inputs)
        }

    def depth(self) -> float:
        """Returns the number of functions in the longest chain of calls; infinity for a cycle."""
        calls = {
            name: {each for node in nodes.values() for each in called(node.attr)}
            & self.functions.keys()
            for name, nodes in self.nodes.items()
        }
        callees = collections.Counter(each for names in calls.values() for each in names)
        # Functions that no other one calls are removed, level by level.
        level = [name for name in calls if name is None or not callees[name]]
        removed = depth = 0
        while level:
            removed += len(level)
            depth += 1
            following = []
            for name in level:
                for each in calls[name]:
                    callees[each] -= 1
                    if not callees[each]:
                        following.append(each)
            level = following
        return depth if removed == len(calls) else math.inf

    def reachable(self, names: Iterable[str]) -> set[tuple[str | None, str]]:
        """Returns the places and names of all nodes that run when nodes of the graph are fetched.

        Inputs and control inputs are followed, and the bodies of called functions are entered as a
        whole.

        Args:
            names: names of nodes of the graph.
        """
        found: set[tuple[str | None, str]] = set()
        entered: set[str] = set()
        waiting: list[tuple[str | None, str]] = [(None, name) for name in names]
        while waiting:
            place, name = waiting.pop()
            if (place, name) in found:
                continue
            found.add((place, name))
            node = self.nodes[place].get(name)
            if node is None:
                continue
            if place is None:
                waiting += [(None, node_name(each)) for each in node.input]
            for function in {node.op, *called(node.attr)} - entered:
                if function in self.functions:
                    entered.add(function)
                    waiting += [(function, each) for each in self.nodes[function]]
        return found

    def constants(self, tensor: Tensor) -> list[Any]:
        """Returns the `TensorProto`s that a tensor can be; raises `NotConstantError`.

        Args:
            tensor: any tensor.
        """
        found, seen, waiting = [], set(), [tensor]
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            node = self.nodes.get(each.place, {}).get(each.node)
            if node is None:
                waiting += self._of_argument(each, found)
            elif node.op == "Const":
                found.append(node.attr["value"].tensor)
            elif node.op == "Identity" and node.input:
                waiting.append(self.parsed(each.place, node.input[0]))
            elif node.op in CALLS:
                waiting += self._of_call(each, node)
            else:
                raise NotConstantError(f"computed by {node.op}")
        return found

    def parsed(self, place: str | None, name: str) -> Tensor:
        """Returns the tensor that an input of a node names: "node", "node:1" or "node:output:1"."""
        node, *rest = name.split(":")
        if not all(part.isdecimal() and len(part) < 9 for part in rest[-1:]):
            raise NotConstantError(f"an input {name!r}")
        index = int(rest[-1]) if rest else 0
        return Tensor(place, node, rest[0] if len(rest) > 1 else "", index)

    def _of_call(self, tensor: Tensor, node: Any) -> Iterator[Tensor]:
        """Yields what the functions that a node calls return as one of its outputs."""
        if node.op in _LOOPS:
            yield self._input(tensor.place, node, tensor.number)
        for key in CALLS[node.op]:
            if key != "cond":
                for name in called({key: node.attr[key]}):
                    yield self._returned(name, tensor.number)

    def _returned(self, name: str, index: int) -> Tensor:
        function = self.functions.get(name)
        outputs = () if function is None else function.signature.output_arg
        if function is None or index >= len(outputs):
            raise NotConstantError(f"returned by {name!r}")
        return self.parsed(name, function.ret[outputs[index].name])

    def _of_argument(self, tensor: Tensor, found: list[Any]) -> Iterator[Tensor]:
        """Yields what the callers of a function give as an argument; captured constants are found.

        Args:
            tensor: the argument.
            found: the `TensorProto`s of captured constants are appended.
        """
        function = self.functions.get(tensor.place or "")
        names = [] if function is None else [each.name for each in function.signature.input_arg]
        if tensor.place is None or tensor.node not in names:
            raise NotConstantError(f"an input {tensor.node!r}")
        index = names.index(tensor.node)
        callers = self.callers.get(tensor.place, [])
        for place, node in callers:
            if node.op in _LOOPS:
                yield self._input(place, node, index)
                for body in called({"body": node.attr["body"]}):
                    yield self._returned(body, index)
            else:
                yield self._input(place, node, index + (node.op in _BRANCHES))
        captures = self._captures.get(tensor.place)
        if captures is not None:
            position = index - (len(names) - len(captures))
            if position < 0:
                raise NotConstantError("an input of a signature")
            found.append(self._captured_constant(captures[position]))
        elif not callers:
            raise NotConstantError("an argument")

    def _captured_constant(self, node: Any) -> Any:
        constant = self.nodes[None].get(node.constant.operation)
        if node.WhichOneof("kind") != "constant" or constant is None or constant.op != "Const":
            raise NotConstantError("a captured tensor")
        return constant.attr["value"].tensor

    def _input(self, place: str | None, node: Any, index: int) -> Tensor:
        if index >= len(node.input) or node.input[index].startswith("^"):
            raise NotConstantError(f"a missing input of {node.op}")
        return self.parsed(place, node.input[index])


def called(attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of functions in the attributes of a node, at any depth."""
    for value in attributes.values():
        for function in _functions_of(value):
            if function.name:
                yield function.name
            yield from called(function.attr)


def _functions_of(value: Any) -> Iterable[Any]:
    kind = value.WhichOneof("value")
    if kind == "func":
        return (value.func,)
    return value.list.func if kind == "list" else ()


def node_name(tensor_name: str) -> str:
    """Returns the node of a tensor "name:0" or of a control input "^name"."""
    return tensor_name.removeprefix("^").partition(":")[0]


def dtype_name(number: int) -> str:
    """Returns the name of a dtype in a protobuf, also for numbers that are no dtype.

    >>> dtype_name(1), dtype_name(7), dtype_name(1000)
    ('float32', 'string', 'dtype 1000')
    """
    from tensorflow.core.framework import types_pb2

    found = types_pb2.DESCRIPTOR.enum_types_by_name["DataType"].values_by_number.get(number)
    if found is None:
        return f"dtype {number}"
    name = found.name.removeprefix("DT_").lower()
    return _DTYPE_NAMES.get(name, name)


def signatures_of(meta_graph: Any) -> dict[str, SignatureFound]:
    """Returns the signatures of a `MetaGraphDef` that users can call, by name."""
    return {
        name: SignatureFound(_tensors_of(found.inputs), _tensors_of(found.outputs))
        for name, found in sorted(meta_graph.signature_def.items())
        if not name.startswith(INTERNAL)
    }


def _tensors_of(tensors: Mapping[str, Any]) -> dict[str, tuple[str, int | None]]:
    return {
        name: (
            dtype_name(each.dtype),
            None if each.tensor_shape.unknown_rank else len(each.tensor_shape.dim),
        )
        for name, each in tensors.items()
    }
