"""What a Keras user composes.

Shapes, here and everywhere: B batch, T query length, S key length, L cache length, H heads, K heads
of keys and values, D head width, M model width, F feed-forward width, V vocabulary.
"""

from keras_transformer.layers.attention import MECHANISMS, AttentionMechanism
from keras_transformer.layers.attention.alibi import Alibi
from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.attention.rotary import Rotary
from keras_transformer.layers.attention.scaled_dot_product import ScaledDotProduct
from keras_transformer.layers.attention.shaw import ShawRelative
from keras_transformer.layers.attention.softmax_attention import SoftmaxAttention
from keras_transformer.layers.decoder_block import DecoderBlock
from keras_transformer.layers.encoder_block import EncoderBlock
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.packed_segments import PackedSegments
from keras_transformer.layers.pooling import Pooling
from keras_transformer.layers.positions import SCHEMES, PositionScheme
from keras_transformer.layers.positions.learned_positions import LearnedPositions
from keras_transformer.layers.positions.scheme import register_positions
from keras_transformer.layers.positions.sinusoidal_positions import SinusoidalPositions
from keras_transformer.layers.rms_normalization import RMSNormalization
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.transformer_block import TransformerBlock

__all__ = [
    "MECHANISMS",
    "SCHEMES",
    "Alibi",
    "AttentionMechanism",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "LearnedPositions",
    "MultiHeadAttention",
    "PackedSegments",
    "Pooling",
    "PositionScheme",
    "RMSNormalization",
    "Rotary",
    "ScaledDotProduct",
    "ShawRelative",
    "SinusoidalPositions",
    "SoftmaxAttention",
    "TokenEmbedding",
    "TransformerBlock",
    "register_mechanism",
    "register_positions",
]
