"""Position encodings that are added to embeddings: one file per encoding, registered by name."""

from keras_transformer._utils.registry import import_members
from keras_transformer.layers.positions.position_embedding import PositionEmbedding
from keras_transformer.layers.positions.position_encoding import (
    POSITION_ENCODINGS,
    PositionEncoding,
    SinePositionEncoding,
    make_position_encoding,
    register_position_encoding,
)

__all__ = [
    "POSITION_ENCODINGS",
    "PositionEmbedding",
    "PositionEncoding",
    "SinePositionEncoding",
    "make_position_encoding",
    "register_position_encoding",
]

# A new encoding in this folder is registered without being named above.
import_members(__name__, __path__)
