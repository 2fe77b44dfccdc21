"""Keras layers: attention, positions, blocks, and the parts that models are made of.

Letters of shapes, in this package and everywhere else:

- B batch size, or rows; N hypotheses of each source; R rows of hypotheses, B·N
- T tokens of a target, or queries; S tokens of a source, or keys; L entries of a KV cache
- H heads of queries; K heads of keys and values; D size of a head
- M `hidden_dim`, the size of hidden states (N, where a second sequence has another size)
- F `intermediate_dim`, the size of a feed-forward network's inner layer
- V tokens of a vocabulary; C classes; W words of a sentence
"""

import keras

from keras_transformer.layers.attention import MECHANISMS, AttentionMechanism
from keras_transformer.layers.attention.additive import AdditiveAttention
from keras_transformer.layers.attention.alibi import AlibiAttention
from keras_transformer.layers.attention.big_bird import BigBirdAttention
from keras_transformer.layers.attention.chunked import ChunkedAttention
from keras_transformer.layers.attention.content_based import ContentBasedAttention
from keras_transformer.layers.attention.dot_product import (
    DotProductAttention,
    GeneralAttention,
    ScaledDotProductAttention,
)
from keras_transformer.layers.attention.linformer import LinformerAttention
from keras_transformer.layers.attention.local import LocalAttention
from keras_transformer.layers.attention.location_based import LocationBasedAttention
from keras_transformer.layers.attention.mechanism import SoftmaxAttention, register_mechanism
from keras_transformer.layers.attention.memory_compressed import MemoryCompressedAttention
from keras_transformer.layers.attention.relative import ShawAttention, StructuralAttention
from keras_transformer.layers.attention.rotary import RotaryAttention
from keras_transformer.layers.attention_recurrence import AttentionRNN
from keras_transformer.layers.convolution import (
    ConvolutionalDecoderBlock,
    ConvolutionalEncoderBlock,
    EncoderKeysAndValues,
    GatedConvolution,
)
from keras_transformer.layers.copying import CoverageLoss, PointerGenerator
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.feed_forward import (
    FEED_FORWARDS,
    FeedForward,
    register_feed_forward,
)
from keras_transformer.layers.kv_cache import (
    CrossAttentionCache,
    FixedKVCache,
    GrowingKVCache,
    KVCache,
)
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.normalization import (
    NORMALIZATIONS,
    LayerNormalization,
    Residual,
    RMSNormalization,
)
from keras_transformer.layers.packed_segments import PackedSegments
from keras_transformer.layers.pooling import Pooling
from keras_transformer.layers.positions import POSITION_ENCODINGS, PositionEncoding
from keras_transformer.layers.positions.position_embedding import PositionEmbedding
from keras_transformer.layers.positions.position_encoding import register_position_encoding
from keras_transformer.layers.positions.sine_position_encoding import SinePositionEncoding
from keras_transformer.layers.positions.tree_depth_encoding import TreeDepthEncoding
from keras_transformer.layers.recurrence import (
    CELLS,
    BidirectionalRNN,
    GRUCell,
    LSTMCell,
    RecurrentCell,
)
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.transformer_block import DecoderBlock, EncoderBlock, TransformerBlock
from keras_transformer.layers.tree_positions import TreePositions

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"keras_transformer needs Keras with TensorFlow; got {keras.backend.backend()!r}. "
        "Set KERAS_BACKEND=tensorflow in the environment before Keras is imported."
    )

__all__ = [
    "CELLS",
    "FEED_FORWARDS",
    "MECHANISMS",
    "NORMALIZATIONS",
    "POSITION_ENCODINGS",
    "AdditiveAttention",
    "AlibiAttention",
    "AttentionMechanism",
    "AttentionRNN",
    "BidirectionalRNN",
    "BigBirdAttention",
    "ChunkedAttention",
    "ContentBasedAttention",
    "ConvolutionalDecoderBlock",
    "ConvolutionalEncoderBlock",
    "CoverageLoss",
    "CrossAttentionCache",
    "DecoderBlock",
    "DotProductAttention",
    "Dropout",
    "EncoderBlock",
    "EncoderKeysAndValues",
    "FeedForward",
    "FixedKVCache",
    "GRUCell",
    "GatedConvolution",
    "GeneralAttention",
    "GrowingKVCache",
    "KVCache",
    "LSTMCell",
    "LayerNormalization",
    "LinformerAttention",
    "LocalAttention",
    "LocationBasedAttention",
    "MemoryCompressedAttention",
    "MultiHeadAttention",
    "PackedSegments",
    "PointerGenerator",
    "Pooling",
    "PositionEmbedding",
    "PositionEncoding",
    "RMSNormalization",
    "RecurrentCell",
    "Residual",
    "RotaryAttention",
    "ScaledDotProductAttention",
    "ShawAttention",
    "SinePositionEncoding",
    "SoftmaxAttention",
    "StructuralAttention",
    "TokenEmbedding",
    "TransformerBlock",
    "TreeDepthEncoding",
    "TreePositions",
    "register_feed_forward",
    "register_mechanism",
    "register_position_encoding",
]
