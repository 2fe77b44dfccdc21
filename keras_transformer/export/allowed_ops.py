"""Operations that an export may hold: an explicit list, because a graph is code.

The list has the operations that our exports contain, with the dtypes and texts that their
attributes have there, and the elementwise functions that a model may have as its activation. It is
as short as possible: TensorFlow checks the arguments of its operations, but not of all, and not
always. Every operation on the list computes from its inputs, its attributes and the variables of
the same graph, and does nothing else.

To export a model that needs another operation, which only computes, add it to its group here; and
if it has an attribute that is a text, the texts that it may have to `TEXTS`. If one of its inputs
is a table or a model that it trusts, check this input too, as `tokenizer_models` does. Some
operations look harmless but are not:

- `Print`, `PrintV2` write to files; `ImmutableConst` maps a file into memory;
- `InitializeTableFromTextFile*`, `GenerateVocabRemapping`, `LoadAndRemapMatrix`, `Skipgram` and
  `FixedUnigramCandidateSampler` read a file; `DecodeProtoV2`, `EncodeProto` read their descriptors;
- every `Dataset` operation, because sources, caches and snapshots are files or servers;
- `Empty`, `FakeParam` return uninitialized memory; `Abort` ends the process;
- `PhraseTokenize`, `FastBertNormalize` and others of tensorflow-text trust the bytes of a model.
"""

import collections
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from keras_transformer.export.damage import refused
from keras_transformer.export.graph import CALLS, Graph, dtype_name
from keras_transformer.export.saver_functions import RESTORING, SAVING, saver_functions

# Number of refused operations that a message names.
_NAMED = 5


def _ops(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: Functions of single numbers. Any of them may be an activation or a part of one.
ARITHMETIC: frozenset[str] = _ops("""
    Abs Acos Acosh Add AddN AddV2 Asin Asinh Atan Atan2 Atanh BitwiseAnd BitwiseOr BitwiseXor Cast
    Ceil ClipByValue Cos Cosh Div DivNoNan Elu Equal Erf Erfc Erfinv Exp Expm1 Floor FloorDiv
    FloorMod Greater GreaterEqual IsFinite IsInf IsNan LeakyRelu LeftShift Less LessEqual Log Log1p
    LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Neg NotEqual Pow RealDiv
    Reciprocal Relu Relu6 RightShift Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign
    Sqrt Square SquaredDifference Sub Tan Tanh
""")

REDUCTIONS: frozenset[str] = _ops("""
    All Any ArgMax ArgMin Cumsum DenseBincount LogSoftmax Max Mean Min Prod Softmax Sum TopKV2
    UnsortedSegmentSum
""")

LINEAR_ALGEBRA: frozenset[str] = _ops("""
    BatchMatMulV2 BatchMatMulV3 BiasAdd Einsum MatMul MatrixDiagV3
""")

ARRAYS: frozenset[str] = _ops("""
    BroadcastTo ConcatV2 Const EnsureShape ExpandDims Fill GatherNd GatherV2 Identity IdentityN
    InvertPermutation OneHot OnesLike Pack Pad PadV2 Placeholder PlaceholderWithDefault Range Rank
    Reshape ReverseV2 Roll SelectV2 Shape ShapeN Size Slice Split SplitV Squeeze StopGradient
    StridedSlice TensorScatterMax TensorScatterMin TensorScatterUpdate Tile Transpose Unique Unpack
    UpperBound Where ZerosLike
""")

STRINGS: frozenset[str] = _ops("""
    DecodeRaw ParseTensor ReduceJoin SerializeTensor StaticRegexFullMatch StaticRegexReplace
    StringJoin StringLength StringLower StringSplitV2 StringToNumber StringUpper Substr
    UnicodeTranscode UnsortedSegmentJoin
""")

RAGGED: frozenset[str] = _ops("RaggedGather RaggedRange RaggedTensorToTensor")

#: Their branches and bodies are functions of the same graph, which are checked too.
CONTROL_FLOW: frozenset[str] = _ops("""
    Assert Case If NoOp PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf
    StatelessWhile While
""")

STATELESS_RANDOM: frozenset[str] = _ops("StatelessRandomUniformFullIntV2")

#: Variables are read. Only the saver's function assigns them, when the weights are restored. Tables
#: are filled from tensors in the graph, when the graph is initialized.
VARIABLES_AND_TABLES: frozenset[str] = _ops("""
    HashTableV2 LookupTableFindV2 LookupTableImportV2 ReadVariableOp VarHandleOp
""")

TENSOR_LISTS: frozenset[str] = _ops("""
    TensorListFromTensor TensorListGetItem TensorListReserve TensorListSetItem TensorListStack
""")

#: Operations of tensorflow-text. `tokenizer_models` checks the models that they read.
TENSORFLOW_TEXT: frozenset[str] = _ops("""
    FastWordpieceTokenizeWithOffsets NormalizeUTF8 SentencepieceDetokenizeOp SentencepieceOp
    SentencepieceTokenizeOp
""")

CORE: frozenset[str] = ARITHMETIC | REDUCTIONS | LINEAR_ALGEBRA | ARRAYS | STRINGS | RAGGED
CORE |= CONTROL_FLOW | STATELESS_RANDOM | VARIABLES_AND_TABLES | TENSOR_LISTS

ALLOWED: frozenset[str] = CORE | TENSORFLOW_TEXT

#: Operations that use files. Only the two functions of the saver have them, see `saver_functions`.
SAVER_OPS: frozenset[str] = _ops("MergeV2Checkpoints RestoreV2 SaveV2 ShardedFilename")

#: Dtypes of tensors.
DTYPES: frozenset[str] = _ops("""
    bfloat16 bool float16 float32 float64 int8 int32 int64 resource string uint8 uint32 uint64
    variant
""")

_ANY = r"[\s\S]*"
_NAME = r"[\w./:>@-]*"
#: Patterns of the texts that attributes may have, by operation. All other texts must be empty.
TEXTS: Mapping[str, Mapping[str, str]] = {
    "BiasAdd": {"data_format": "NHWC"},
    "Einsum": {"equation": "[a-zA-Z.,]+->[a-zA-Z.]*"},
    "HashTableV2": {"shared_name": _NAME},
    "NormalizeUTF8": {"normalization_form": "NFC|NFD"},
    "RaggedTensorToTensor": {"row_partition_types": "FIRST_DIM_SIZE|ROW_SPLITS|VALUE_ROWIDS"},
    "ReduceJoin": {"separator": _ANY},
    "SentencepieceOp": {"model": _ANY, "shared_name": "sentencepiece_[0-9a-f]{64}"},
    "StaticRegexFullMatch": {"pattern": _ANY},
    "StaticRegexReplace": {"pattern": _ANY, "rewrite": _ANY},
    "StringJoin": {"separator": _ANY},
    "StringLength": {"unit": "BYTE|UTF8_CHAR"},
    "StringLower": {"encoding": "utf-8"},
    "StringUpper": {"encoding": "utf-8"},
    "Substr": {"unit": "BYTE|UTF8_CHAR"},
    "UnicodeTranscode": {
        "errors": "ignore|replace|strict",
        "input_encoding": "UTF-8|ISO-8859-1",
        "output_encoding": "UTF-8",
    },
    "UnsortedSegmentJoin": {"separator": _ANY},
    "VarHandleOp": {"debug_name": _NAME, "shared_name": _NAME},
}
# Attributes that any operation may have.
_TEXTS_EVERYWHERE = {
    "_class": f"loc:@{_NAME}",
    "_gradient_op_type": "CustomGradient-[0-9]+",
    "_user_specified_name": _NAME,
}
# Attributes of functions and of their arguments.
_OF_FUNCTIONS = {
    "_XlaMustCompile": "",
    "_construction_context": "kEagerRuntime",
    "_has_manual_control_dependencies": "",
    "_input_shapes": "",
    "_noinline": "",
    "_output_shapes": "",
    "_user_specified_name": _NAME,
}
_DEVICE = re.compile("(/device:(CPU|GPU):([0-9]+|[*]))?")
_LONGEST_TEXT = 10_000
# Largest constant, in elements, and all together: a few bytes can describe a constant of terabytes.
_LARGEST_CONSTANT = 1 << 26
_LARGEST_CONSTANTS = 1 << 28
# A graph of a large model has some 10,000 nodes for each of its signatures, and 10 levels of calls.
_MOST_NODES = 1_000_000
_DEEPEST_CALLS = 100


class GraphOps(NamedTuple):
    """The operations of a graph.

    Attributes:
        ops: number of nodes of each operation, by name, without those of the saver.
        saver_ops: the same for the functions that restore and save the weights.
        outside_core: names of the operations of tensorflow-text.
    """

    ops: dict[str, int]
    saver_ops: dict[str, int]
    outside_core: list[str]


def check_ops(directory: str | os.PathLike[str], meta_graph: Any) -> GraphOps:
    """Returns the `GraphOps` of an export; a `UserError` names what is not allowed.

    All nodes of the graph and of its functions are checked, whether something runs them or not.

    Args:
        directory: directory of the export, for messages.
        meta_graph: from `read_meta_graph`.
    """
    graph = Graph(meta_graph)
    savers = saver_functions(meta_graph, graph)
    ops, saver_ops = collections.Counter(), collections.Counter()
    foreign: dict[str, str | None] = {}
    for place, nodes in graph.places():
        is_saver = place in savers
        counted, allowed = (saver_ops, RESTORING | SAVING) if is_saver else (ops, ALLOWED)
        for node in nodes:
            counted[node.op] += 1
            if node.op not in allowed:
                foreign.setdefault(node.op, place)
    if foreign:
        named = [f"{op} (in {_described(place)})" for op, place in sorted(foreign.items())]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        raise refused(
            directory,
            "refused: ops that an export may not hold, as they could access files, the network or "
            f"other programs, or end the process: {', '.join(named[:_NAMED])}{more}.",
            "Do not load it; export the model with `keras-transformer export`.",
        )
    problem = next(_problems(meta_graph, graph), None)
    if problem is not None:
        raise refused(
            directory,
            f"refused: {problem}, which no export of this package has.",
            "Do not load it; export the model with `keras-transformer export`.",
        )
    return GraphOps(dict(ops), dict(saver_ops), outside_core([*ops, *saver_ops]))


def outside_core(ops: Iterable[str]) -> list[str]:
    """Returns the operations of tensorflow-text among `ops`, sorted."""
    return sorted(TENSORFLOW_TEXT.intersection(ops))


def _described(place: str | None) -> str:
    return f"function {place}" if place else "the graph"


def _problems(meta_graph: Any, graph: Graph) -> Iterator[str]:
    """Yields what is not allowed in the nodes and functions of a graph."""
    if sum(len(nodes) for _, nodes in graph.places()) > _MOST_NODES:
        yield f"more than {_MOST_NODES:,} nodes"
        return
    if graph.depth() > _DEEPEST_CALLS:
        yield f"functions that call themselves, or calls deeper than {_DEEPEST_CALLS}"
    elements = 0
    for place, nodes in graph.places():
        where = _described(place)
        if len({node.name for node in nodes}) != len(nodes):
            yield f"two nodes of the same name in {where}"
        for node in nodes:
            if not _DEVICE.fullmatch(node.device):
                yield f"{node.op} on the device {node.device!r} in {where}"
            for name, value in node.attr.items():
                problem = _attribute_problem(node.op, name, value, graph)
                if problem is not None:
                    yield f"{node.op} with {problem} in {where}"
            if node.op == "Const":
                size = _size_of(node.attr["value"].tensor)
                elements += max(size, 0)
                if not 0 <= size <= _LARGEST_CONSTANT or elements > _LARGEST_CONSTANTS:
                    yield f"a constant that is too large in {where}"
    functions = meta_graph.graph_def.library.function
    if len(graph.functions) != len(functions):
        yield "two functions of the same name"
    for function in functions:
        name = function.signature.name
        if name in ALLOWED | SAVER_OPS or function.signature.attr:
            yield f"a function {name!r} with the name of an op, or with attributes"
        if function.resource_arg_unique_id:
            yield f"a function {name!r} with identified resources"
        attributes = [function.attr, *(each.attr for each in function.arg_attr.values())]
        for key, value in (item for each in attributes for item in each.items()):
            if key not in _OF_FUNCTIONS or not _has_texts(value, _OF_FUNCTIONS[key]):
                yield f"a function {name!r} with the attribute {key!r}"


def _attribute_problem(op: str, name: str, value: Any, graph: Graph) -> str | None:
    """Returns what is not allowed in an attribute of a node, or None."""
    kind = value.WhichOneof("value")
    if kind in ("b", "f", "i", "shape"):
        return None
    if kind == "tensor":
        is_plain = dtype_name(value.tensor.dtype) in DTYPES - {"resource", "variant"}
        is_constant = op == "Const" and name == "value" and is_plain
        return None if is_constant else f"the tensor {name!r}"
    if kind == "type" or (kind == "list" and value.list.type):
        numbers = [value.type] if kind == "type" else value.list.type
        wrong = {dtype_name(number) for number in numbers} - DTYPES
        return f"{name!r} {min(wrong)}" if wrong else None
    if kind == "func" or (kind == "list" and value.list.func):
        functions = [value.func] if kind == "func" else value.list.func
        is_known = all(each.name in graph.functions and not each.attr for each in functions)
        return None if is_known and name in CALLS.get(op, ()) else f"the function {name!r}"
    if name == "config_proto" and op in CALLS:
        return None if _is_plain_config(value.s) else "other settings of its run"
    if kind == "list" and (value.list.tensor or value.list.func):
        return f"the list {name!r}"
    if kind not in ("list", "s", None):
        return f"the {kind} {name!r}"
    pattern = TEXTS.get(op, {}).get(name, _TEXTS_EVERYWHERE.get(name, ""))
    return None if _has_texts(value, pattern) else f"another {name!r}"


def _has_texts(value: Any, pattern: str) -> bool:
    """Returns whether all texts of an attribute match a pattern."""
    texts = [*value.list.s, *([value.s] if value.s else [])]
    if pattern != _ANY and any(len(text) > _LONGEST_TEXT for text in texts):
        return False
    try:
        return pattern == _ANY or all(re.fullmatch(pattern, each.decode()) for each in texts)
    except UnicodeDecodeError:
        return False


def _size_of(tensor: Any) -> int:
    """Returns the number of elements of a `TensorProto`, or -1 if it has no valid shape."""
    sizes = [axis.size for axis in tensor.tensor_shape.dim]
    is_valid = not tensor.tensor_shape.unknown_rank and min(sizes, default=0) >= 0
    return math.prod(sizes) if is_valid else -1


def _is_plain_config(content: bytes) -> bool:
    """Returns whether the settings of a call, a `ConfigProto`, name nothing but devices.

    Names could be those of servers, of plug-ins that rewrite the graph, or of other executors.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import config_pb2

    try:
        config = config_pb2.ConfigProto.FromString(content)
    except DecodeError:
        return False
    devices = set(config.device_count)
    config.ClearField("device_count")
    return devices <= {"CPU", "GPU"} and not _holds_names(config)


def _holds_names(message: Any) -> bool:
    for field, value in message.ListFields():
        if field.type in (field.TYPE_STRING, field.TYPE_BYTES) or field.is_repeated:
            return True
        if field.type == field.TYPE_MESSAGE and _holds_names(value):
            return True
    return False
