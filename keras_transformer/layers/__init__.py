"""What a Keras user composes.

Shapes, here and everywhere: B batch, T query length, S key length, L cache length, H heads, K heads
of keys and values, D head width, M model width, F feed-forward width, V vocabulary, W words.
"""

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
from keras_transformer.layers.attention_recurrence import AttentionRecurrence
from keras_transformer.layers.convolution import (
    ConvolutionalDecoderBlock,
    ConvolutionalEncoderBlock,
    ConvolutionalMemory,
    GatedConvolution,
)
from keras_transformer.layers.copying import CoverageLoss, PointerGenerator
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.normalization import RMSNormalization
from keras_transformer.layers.packed_segments import PackedSegments
from keras_transformer.layers.pooling import Pooling
from keras_transformer.layers.positions import SCHEMES, PositionEncoding
from keras_transformer.layers.positions.learned_positions import PositionEmbedding
from keras_transformer.layers.positions.scheme import register_positions
from keras_transformer.layers.positions.sinusoidal_positions import SinePositionEncoding
from keras_transformer.layers.positions.structural_positions import TreeDepthEncoding
from keras_transformer.layers.recurrence import (
    BidirectionalRecurrence,
    GatedRecurrentUnit,
    LongShortTermMemory,
)
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.transformer_block import DecoderBlock, EncoderBlock, TransformerBlock
from keras_transformer.layers.tree_positions import TreePositions

__all__ = [
    "MECHANISMS",
    "SCHEMES",
    "AdditiveAttention",
    "AlibiAttention",
    "AttentionMechanism",
    "AttentionRecurrence",
    "BidirectionalRecurrence",
    "BigBirdAttention",
    "ChunkedAttention",
    "ContentBasedAttention",
    "ConvolutionalDecoderBlock",
    "ConvolutionalEncoderBlock",
    "ConvolutionalMemory",
    "CoverageLoss",
    "DecoderBlock",
    "DotProductAttention",
    "EncoderBlock",
    "FeedForward",
    "GatedConvolution",
    "GatedRecurrentUnit",
    "GeneralAttention",
    "LinformerAttention",
    "LocalAttention",
    "LocationBasedAttention",
    "LongShortTermMemory",
    "MemoryCompressedAttention",
    "MultiHeadAttention",
    "PackedSegments",
    "PointerGenerator",
    "Pooling",
    "PositionEmbedding",
    "PositionEncoding",
    "RMSNormalization",
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
    "register_mechanism",
    "register_positions",
]
