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

from keras_transformer.layers import attention, feed_forwards, positions
from keras_transformer.layers.attention import *  # noqa: F403
from keras_transformer.layers.attention_recurrence import AttentionRNN
from keras_transformer.layers.convolution import (
    ConvolutionalDecoderBlock,
    ConvolutionalEncoderBlock,
    EncoderKeysAndValues,
    GatedConvolution,
)
from keras_transformer.layers.copying import CoverageLoss, PointerGenerator
from keras_transformer.layers.feed_forwards import *  # noqa: F403
from keras_transformer.layers.kv_cache import (
    CrossAttentionCache,
    FixedKVCache,
    GrowingKVCache,
    KVCache,
)
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.packed_segments import PackedSegments
from keras_transformer.layers.pooling import Pooling
from keras_transformer.layers.positions import *  # noqa: F403
from keras_transformer.layers.recurrence import (
    CELLS,
    BidirectionalRNN,
    GRUCell,
    LSTMCell,
    RecurrentCell,
)
from keras_transformer.layers.residual import (
    NORMALIZATIONS,
    Dropout,
    LayerNormalization,
    Residual,
    RMSNormalization,
)
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.token_type_embedding import TokenTypeEmbedding
from keras_transformer.layers.transformer_block import DecoderBlock, EncoderBlock, TransformerBlock
from keras_transformer.layers.tree_positions import TreeDepthEncoding, TreePositions

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"keras_transformer needs Keras with TensorFlow; got {keras.backend.backend()!r}. "
        "Set KERAS_BACKEND=tensorflow in the environment before Keras is imported."
    )

__all__ = [
    "CELLS",
    "NORMALIZATIONS",
    "AttentionRNN",
    "BidirectionalRNN",
    "ConvolutionalDecoderBlock",
    "ConvolutionalEncoderBlock",
    "CoverageLoss",
    "CrossAttentionCache",
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "EncoderKeysAndValues",
    "FixedKVCache",
    "GRUCell",
    "GatedConvolution",
    "GrowingKVCache",
    "KVCache",
    "LSTMCell",
    "LayerNormalization",
    "MultiHeadAttention",
    "PackedSegments",
    "PointerGenerator",
    "Pooling",
    "RMSNormalization",
    "RecurrentCell",
    "Residual",
    "TokenEmbedding",
    "TokenTypeEmbedding",
    "TransformerBlock",
    "TreeDepthEncoding",
    "TreePositions",
]
__all__ += attention.__all__
__all__ += feed_forwards.__all__
__all__ += positions.__all__
