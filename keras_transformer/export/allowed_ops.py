"""The ops that an export may hold: an explicit list, since a graph is code.

Everything on it computes from its inputs, its attributes and the variables and tables of the same
graph. Nothing on it opens files or sockets, calls Python or other processes, or logs to a place
that the graph chooses. An op that is not here is refused, whatever it does: a list of bad ones
would miss the next one that TensorFlow adds. Those that look harmless and are not:

- `Print`, `PrintV2` write to files; `ImmutableConst` maps one into memory;
- `InitializeTableFromTextFile*`, `GenerateVocabRemapping`, `LoadAndRemapMatrix`, `Skipgram` and
  `FixedUnigramCandidateSampler` read one; `DecodeProtoV2`, `EncodeProto` read their descriptors;
- every `Dataset` op, as sources, caches and snapshots are files or servers;
- `Empty`, `FakeParam` return memory as they find it; `Abort` ends the process.

When a model needs another op that computes and does nothing else, add it to its group.
"""


def _ops(names):
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
    AsString DecodeBase64 DecodePaddedRaw DecodeRaw EncodeBase64 ReduceJoin RegexFullMatch
    RegexReplace StaticRegexFullMatch StaticRegexReplace StringFormat StringJoin StringLength
    StringLower StringNGrams StringSplit StringSplitV2 StringStrip StringToHashBucketFast
    StringToHashBucketStrong StringToNumber StringUpper Substr UnicodeDecode
    UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode UnsortedSegmentJoin
""")

RAGGED_AND_SPARSE = _ops("""
    RaggedFillEmptyRows RaggedGather RaggedRange RaggedTensorFromVariant RaggedTensorToSparse
    RaggedTensorToTensor RaggedTensorToVariant SparseFillEmptyRows SparseReorder SparseReshape
    SparseTensorDenseMatMul SparseToDense
""")

# Their branches and bodies are functions of the same graph, and scanned as such.
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

VARIABLES = _ops("""
    AssignAddVariableOp AssignSubVariableOp AssignVariableOp DisableCopyOnRead ReadVariableOp
    ResourceGather ResourceGatherNd VarHandleOp VarIsInitializedOp VariableShape
""")

TENSOR_LISTS = _ops("""
    EmptyTensorList TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape
    TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter
    TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
    TensorListStack
""")

# Filled from tensors in the graph, never from a file.
TABLES = _ops("""
    HashTableV2 InitializeTableV2 LookupTableExportV2 LookupTableFindV2 LookupTableImportV2
    LookupTableInsertV2 LookupTableRemoveV2 LookupTableSizeV2 MutableDenseHashTableV2
    MutableHashTableOfTensorsV2 MutableHashTableV2
""")

#: The ops of tensorflow-text, all of them: models and vocabularies are bytes in the graph.
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

CORE = frozenset().union(
    ARITHMETIC,
    REDUCTIONS,
    LINEAR_ALGEBRA,
    ARRAYS,
    STRINGS,
    RAGGED_AND_SPARSE,
    CONTROL_FLOW,
    STATELESS_RANDOM,
    VARIABLES,
    TENSOR_LISTS,
    TABLES,
)

ALLOWED = CORE | TENSORFLOW_TEXT

#: Only in the function that loads the weights, from the files that the server names.
ALLOWED_WHERE_WEIGHTS_ARE_RESTORED = ALLOWED | {"RestoreV2"}

#: Only in the function that writes a checkpoint, which no server and no signature calls.
ALLOWED_WHERE_WEIGHTS_ARE_SAVED = ALLOWED | {"MergeV2Checkpoints", "SaveV2", "ShardedFilename"}


def outside_core(ops):
    """Returns those of `ops` that come with tensorflow-text, sorted.

    >>> outside_core(["AddV2", "SentencepieceOp", "CaseFoldUTF8"])
    ['CaseFoldUTF8', 'SentencepieceOp']
    """
    return sorted(TENSORFLOW_TEXT.intersection(ops))
