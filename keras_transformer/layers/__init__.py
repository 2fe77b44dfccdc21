"""What a Keras user composes.

Shapes, here and everywhere: B batch, T query length, S key length, L cache length, H heads, K heads
of keys and values, D head width, M model width, F feed-forward width, V vocabulary, W words.
"""

from keras_transformer.layers.attention import MECHANISMS, AttentionMechanism
from keras_transformer.layers.attention.additive import Additive
from keras_transformer.layers.attention.alibi import Alibi
from keras_transformer.layers.attention.big_bird import BigBird
from keras_transformer.layers.attention.chunked import Chunked
from keras_transformer.layers.attention.content_based import ContentBased
from keras_transformer.layers.attention.dot_product import DotProduct
from keras_transformer.layers.attention.general import General
from keras_transformer.layers.attention.linformer import Linformer
from keras_transformer.layers.attention.local import Local
from keras_transformer.layers.attention.location_based import LocationBased
from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.attention.memory_compressed import MemoryCompressed
from keras_transformer.layers.attention.rotary import Rotary
from keras_transformer.layers.attention.scaled_dot_product import ScaledDotProduct
from keras_transformer.layers.attention.shaw import ShawRelative
from keras_transformer.layers.attention.softmax_attention import SoftmaxAttention
from keras_transformer.layers.attention.structural import Structural
from keras_transformer.layers.convolutional_decoder_block import ConvolutionalDecoderBlock
from keras_transformer.layers.convolutional_encoder_block import ConvolutionalEncoderBlock
from keras_transformer.layers.convolutional_memory import ConvolutionalMemory
from keras_transformer.layers.coverage_loss import CoverageLoss
from keras_transformer.layers.decoder_block import DecoderBlock
from keras_transformer.layers.encoder_block import EncoderBlock
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.gated_convolution import GatedConvolution
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.packed_segments import PackedSegments
from keras_transformer.layers.pointer_generator import PointerGenerator
from keras_transformer.layers.pooling import Pooling
from keras_transformer.layers.positions import SCHEMES, PositionScheme
from keras_transformer.layers.positions.learned_positions import LearnedPositions
from keras_transformer.layers.positions.scheme import register_positions
from keras_transformer.layers.positions.sinusoidal_positions import SinusoidalPositions
from keras_transformer.layers.positions.structural_positions import StructuralPositions
from keras_transformer.layers.recurrence.attention_recurrence import AttentionRecurrence
from keras_transformer.layers.recurrence.bidirectional_recurrence import BidirectionalRecurrence
from keras_transformer.layers.recurrence.gated_recurrent_unit import GatedRecurrentUnit
from keras_transformer.layers.recurrence.long_short_term_memory import LongShortTermMemory
from keras_transformer.layers.rms_normalization import RMSNormalization
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.layers.tree_positions import TreePositions

__all__ = [
    "MECHANISMS",
    "SCHEMES",
    "Additive",
    "Alibi",
    "AttentionMechanism",
    "AttentionRecurrence",
    "BidirectionalRecurrence",
    "BigBird",
    "Chunked",
    "ContentBased",
    "ConvolutionalDecoderBlock",
    "ConvolutionalEncoderBlock",
    "ConvolutionalMemory",
    "CoverageLoss",
    "DecoderBlock",
    "DotProduct",
    "EncoderBlock",
    "FeedForward",
    "GatedConvolution",
    "GatedRecurrentUnit",
    "General",
    "LearnedPositions",
    "Linformer",
    "Local",
    "LocationBased",
    "LongShortTermMemory",
    "MemoryCompressed",
    "MultiHeadAttention",
    "PackedSegments",
    "PointerGenerator",
    "Pooling",
    "PositionScheme",
    "RMSNormalization",
    "Rotary",
    "ScaledDotProduct",
    "ShawRelative",
    "SinusoidalPositions",
    "SoftmaxAttention",
    "Structural",
    "StructuralPositions",
    "TokenEmbedding",
    "TransformerBlock",
    "TreePositions",
    "register_mechanism",
    "register_positions",
]
