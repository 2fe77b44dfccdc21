"""Operations that an export may hold: an explicit list, because a graph is code.

Every operation on the list computes from its inputs, its attributes and the variables and tables of
the same graph, and does nothing else. A list of forbidden operations would not contain operations
that TensorFlow adds later. When a model needs another operation that only computes, add it to its
group. Some operations look harmless but are not:

- `Print`, `PrintV2` write to files; `ImmutableConst` maps a file into memory;
- `InitializeTableFromTextFile*`, `GenerateVocabRemapping`, `LoadAndRemapMatrix`, `Skipgram` and
  `FixedUnigramCandidateSampler` read a file; `DecodeProtoV2`, `EncodeProto` read their descriptors;
- every `Dataset` operation, because sources, caches and snapshots are files or servers;
- `Empty`, `FakeParam` return uninitialized memory; `Abort` ends the process.
"""

import collections
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from keras_transformer.export.damage import refused

# Number of refused operations that a message names.
_NAMED = 5


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
    """Returns the `GraphOps` of an export; a `UserError` names operations that are not allowed.

    Args:
        directory: directory of the export, for messages.
        meta_graph: from `read_meta_graph`.
    """
    privileged = _privileged_functions(meta_graph)
    ops, saver_ops = collections.Counter(), collections.Counter()
    foreign: dict[str, str | None] = {}
    for place, nodes in _places(meta_graph.graph_def):
        counted = saver_ops if place in privileged else ops
        allowed = privileged.get(place, ALLOWED)
        for node in nodes:
            counted[node.op] += 1
            if node.op not in allowed:
                foreign.setdefault(node.op, place)
    if foreign:
        named = [
            f"{op} (in {f'function {place}' if place else 'the graph'})"
            for op, place in sorted(foreign.items())
        ]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        raise refused(
            directory,
            "refused: ops that an export may not hold, as they could access files, the network or "
            f"other programs: {', '.join(named[:_NAMED])}{more}.",
            "Do not load it; export the model with `keras-transformer export`.",
        )
    return GraphOps(dict(ops), dict(saver_ops), outside_core([*ops, *saver_ops]))


def _places(graph: Any) -> Iterator[tuple[str | None, Any]]:
    """Yields name and nodes of every function, and None and the nodes of the graph itself."""
    yield None, graph.node
    for function in graph.library.function:
        yield function.signature.name, function.node_def


def _privileged_functions(meta_graph: Any) -> dict[str | None, frozenset[str]]:
    """Returns the operations allowed in the functions that restore and save the weights, by name.

    A function is privileged if the saver's node calls it and nothing else can: no other node, no
    signature, no initialization and no object that `tf.saved_model.load` restores.
    """
    saver, graph = meta_graph.saver_def, meta_graph.graph_def
    nodes = {node.name: node for node in graph.node}
    functions = {function.signature.name: function for function in graph.library.function}
    is_clear = len(nodes) == len(graph.node) and len(functions) == len(graph.library.function)
    # A node with both roles would write files when weights are loaded.
    if not is_clear or _node_name(saver.restore_op_name) == _node_name(saver.save_tensor_name):
        return {}
    users = _users(meta_graph)
    privileged: dict[str | None, frozenset[str]] = {}
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
            # With this attribute, TensorFlow may run the function in place of another.
            if "api_implements" in functions[name].attr:
                continue
            if _reads_what_the_server_names(saver, node, functions[name]):
                privileged[name] = allowed
    return privileged


def _reads_what_the_server_names(saver: Any, node: Any, function: Any) -> bool:
    """Returns whether `RestoreV2` gets its files from the saver's placeholder, not the graph."""
    restoring = [inner for inner in function.node_def if inner.op == "RestoreV2"]
    if not restoring:
        return True
    prefix = [argument.name for argument in function.signature.input_arg[:1]]
    return list(node.input[:1]) == [_node_name(saver.filename_tensor_name)] and all(
        list(inner.input[:1]) == prefix for inner in restoring
    )


def _users(meta_graph: Any) -> collections.Counter[tuple[str, str]]:
    """Counts the uses of each node of the graph, ("node", name), and each ("function", name)."""
    users: collections.Counter[tuple[str, str]] = collections.Counter()
    graph = meta_graph.graph_def
    users.update(("node", _node_name(name)) for node in graph.node for name in node.input)
    users.update(("node", name) for name in _named_tensors(meta_graph))
    for _, nodes in _places(graph):
        for node in nodes:
            # A function can be called by its name too, like an operation.
            users.update(("function", name) for name in [node.op, *_called(node.attr)])
    for function in graph.library.function:
        users.update(("function", name) for name in _called(function.attr))
    users.update(("function", gradient.gradient_func) for gradient in graph.library.gradient)
    users.update(("function", name) for name in meta_graph.object_graph_def.concrete_functions)
    return users


def _named_tensors(meta_graph: Any) -> Iterator[str]:
    """Yields the nodes that signatures, initialization and collections of a graph name."""
    for signature in meta_graph.signature_def.values():
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            yield from map(_node_name, _tensor_names(tensor))
    for collection in meta_graph.collection_def.values():
        yield from map(_node_name, collection.node_list.value)


def _tensor_names(tensor: Any) -> list[str]:
    """Returns the names in a `TensorInfo`, which may describe a sparse or composite tensor."""
    sparse = tensor.coo_sparse
    names = [sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name]
    for component in tensor.composite_tensor.components:
        names += _tensor_names(component)
    return [tensor.name, *names]


def _called(attributes: Any) -> Iterator[str]:
    """Yields the names of functions in the attributes of a node, at any depth."""
    for value in attributes.values():
        for function in [value.func, *value.list.func]:
            if function.name:
                yield function.name
            yield from _called(function.attr)


def _node_name(tensor_name: str) -> str:
    """Returns the node of a tensor "name:0" or of a control input "^name"."""
    return tensor_name.removeprefix("^").partition(":")[0]


def _ops(names: str) -> frozenset[str]:
    return frozenset(names.split())


ARITHMETIC = _ops("""
    Abs AccumulateNV2 Acos Acosh Add AddN AddV2 ApproximateEqual Asin Asinh Atan Atan2 Atanh
    BitwiseAnd BitwiseOr BitwiseXor Cast Ceil CheckNumerics CheckNumericsV2 ClipByValue Complex
    ComplexAbs Conj Cos Cosh Digamma Div DivNoNan Elu Equal Erf Erfc Erfinv Exp Expm1 Floor FloorDiv
    FloorMod Greater GreaterEqual Imag Inv Invert IsFinite IsInf IsNan LeakyRelu LeftShift Less
    LessEqual Lgamma Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Neg
    NotEqual PopulationCount Pow Real RealDiv Reciprocal Relu Relu6 RightShift Rint Round Rsqrt Selu
    Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square SquaredDifference Sub Tan Tanh ToBool
    TruncateDiv TruncateMod Xdivy Xlog1py Xlogy
""")

REDUCTIONS = _ops("""
    All Any ArgMax ArgMin Bincount Bucketize Cumprod Cumsum CumulativeLogsumexp DenseBincount
    EuclideanNorm InTopKV2 LogSoftmax Max Mean Min NthElement Prod SegmentMax SegmentMaxV2
    SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum SegmentSumV2 Softmax
    SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits Sum TopK TopKV2
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
""")

LINEAR_ALGEBRA = _ops("""
    AvgPool BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd Conv2D DepthwiseConv2dNative Diag
    DiagPart Einsum FFT FFT2D FusedBatchNormV3 IFFT IFFT2D IRFFT IRFFT2D MatMul MatrixBandPart
    MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
    MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MaxPool RFFT RFFT2D
""")

ARRAYS = _ops("""
    BatchToSpaceND Bitcast BroadcastArgs BroadcastTo Concat ConcatOffset ConcatV2 ConjugateTranspose
    Const DepthToSpace DynamicPartition DynamicStitch EnsureShape ExpandDims Fill Gather GatherNd
    GatherV2 Identity IdentityN InvertPermutation LinSpace ListDiff LowerBound MirrorPad OneHot
    OnesLike Pack Pad PadV2 ParallelDynamicStitch Placeholder PlaceholderWithDefault PreventGradient
    Range Rank Reshape Reverse ReverseSequence ReverseV2 Roll ScatterNd Select SelectV2 Shape ShapeN
    Size Slice Snapshot SpaceToBatchND SpaceToDepth Split SplitV Squeeze StopGradient StridedSlice
    TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate
    TensorStridedSliceUpdate Tile Transpose Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
    Unpack UnravelIndex UpperBound Where ZerosLike
""")

STRINGS = _ops("""
    AsString DecodeBase64 DecodePaddedRaw DecodeRaw EncodeBase64 ParseTensor ReduceJoin
    RegexFullMatch RegexReplace SerializeTensor StaticRegexFullMatch StaticRegexReplace StringFormat
    StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2 StringStrip
    StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Substr UnicodeDecode
    UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode UnsortedSegmentJoin
""")

RAGGED_AND_SPARSE = _ops("""
    RaggedFillEmptyRows RaggedGather RaggedRange RaggedTensorFromVariant RaggedTensorToSparse
    RaggedTensorToTensor RaggedTensorToVariant SparseFillEmptyRows SparseReorder SparseReshape
    SparseTensorDenseMatMul SparseToDense
""")

# Their branches and bodies are functions of the same graph, which are scanned too.
CONTROL_FLOW = _ops("""
    Assert Case If NoOp PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf
    StatelessWhile While
""")

STATELESS_RANDOM = _ops("""
    StatelessMultinomial StatelessRandomGetAlg StatelessRandomGetKeyCounter
    StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2
    StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
    StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle
    StatelessTruncatedNormal StatelessTruncatedNormalV2
""")

# Tables are filled from tensors in the graph, never from a file.
VARIABLES_AND_TABLES = _ops("""
    AssignAddVariableOp AssignSubVariableOp AssignVariableOp DisableCopyOnRead ReadVariableOp
    ResourceGather ResourceGatherNd VarHandleOp VarIsInitializedOp VariableShape HashTableV2
    InitializeTableV2 LookupTableExportV2 LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2
    LookupTableRemoveV2 LookupTableSizeV2 MutableDenseHashTableV2 MutableHashTableOfTensorsV2
    MutableHashTableV2
""")

TENSOR_LISTS = _ops("""
    EmptyTensorList TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape
    TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter
    TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
    TensorListStack
""")

#: All operations of tensorflow-text: models and vocabularies are bytes in the graph.
TENSORFLOW_TEXT = _ops("""
    CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets
    FindSourceOffsets MaxSpanningTree NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize
    RegexSplitWithOffsets RougeL SentenceFragments SentenceFragmentsV2 SentencepieceDetokenizeOp
    SentencepieceIdToStringOp SentencepieceOp SentencepieceStringToIdOp SentencepieceTokenizeOp
    SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp SplitMergeTokenizeWithOffsets
    TFText>BoiseTagsToOffsets TFText>ByteSplitByOffsets TFText>ByteSplitWithOffsets
    TFText>FastSentencepieceDetokenize TFText>FastSentencepieceTokenize
    TFText>FastWordpieceDetokenize TFText>NgramsStringJoin TFText>OffsetsToBoiseTags
    TFText>PhraseDetokenize TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim TFText>Utf8Binarize
    TFText>WhitespaceTokenizeWithOffsetsV2 TokenizerFromLogits UnicodeScriptTokenizeWithOffsets
    WhitespaceTokenizeWithOffsets WordpieceTokenizeWithOffsets
""")

CORE: frozenset[str] = ARITHMETIC | REDUCTIONS | LINEAR_ALGEBRA | ARRAYS | STRINGS
CORE |= RAGGED_AND_SPARSE | CONTROL_FLOW | STATELESS_RANDOM | VARIABLES_AND_TABLES | TENSOR_LISTS

ALLOWED: frozenset[str] = CORE | TENSORFLOW_TEXT

#: Allowed in the function that loads the weights, from the files that the server names.
ALLOWED_WHERE_WEIGHTS_ARE_RESTORED: frozenset[str] = ALLOWED | {"RestoreV2"}

#: Allowed in the function that writes a checkpoint, which no server and no signature calls.
ALLOWED_WHERE_WEIGHTS_ARE_SAVED: frozenset[str] = ALLOWED | {
    "MergeV2Checkpoints",
    "SaveV2",
    "ShardedFilename",
}


def outside_core(ops: Iterable[str]) -> list[str]:
    """Returns the operations of tensorflow-text among `ops`, sorted."""
    return sorted(TENSORFLOW_TEXT.intersection(ops))
