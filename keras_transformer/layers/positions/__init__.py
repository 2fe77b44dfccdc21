"""Position encodings that are added to embeddings: one file an encoding, registered by name."""

from keras_transformer._utils.registry import import_members
from keras_transformer.layers.positions.position_embedding import PositionEmbedding
from keras_transformer.layers.positions.position_encoding import (
    POSITION_ENCODINGS,
    PositionEncoding,
    make_position_encoding,
    register_position_encoding,
)
from keras_transformer.layers.positions.sine_position_encoding import SinePositionEncoding
from keras_transformer.layers.positions.tree_depth_encoding import TreeDepthEncoding

__all__ = [
    "POSITION_ENCODINGS",
    "PositionEmbedding",
    "PositionEncoding",
    "SinePositionEncoding",
    "TreeDepthEncoding",
    "make_position_encoding",
    "register_position_encoding",
]

# A new encoding in this folder is registered without being named above.
import_members(__name__, __path__)
