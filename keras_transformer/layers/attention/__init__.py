"""Attention mechanisms: one file per mechanism, registered by name."""

from keras_transformer._utils.registry import import_members
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
from keras_transformer.layers.attention.mechanism import (
    MECHANISMS,
    AttentionInputs,
    AttentionMechanism,
    SoftmaxAttention,
    make_mechanism,
    register_mechanism,
)
from keras_transformer.layers.attention.memory_compressed import MemoryCompressedAttention
from keras_transformer.layers.attention.relative import (
    RelativeAttention,
    ShawAttention,
    StructuralAttention,
)
from keras_transformer.layers.attention.relative_bias import RelativeBiasAttention
from keras_transformer.layers.attention.rotary import RotaryAttention

__all__ = [
    "MECHANISMS",
    "AdditiveAttention",
    "AlibiAttention",
    "AttentionInputs",
    "AttentionMechanism",
    "BigBirdAttention",
    "ChunkedAttention",
    "ContentBasedAttention",
    "DotProductAttention",
    "GeneralAttention",
    "LinformerAttention",
    "LocalAttention",
    "LocationBasedAttention",
    "MemoryCompressedAttention",
    "RelativeAttention",
    "RelativeBiasAttention",
    "RotaryAttention",
    "ScaledDotProductAttention",
    "ShawAttention",
    "SoftmaxAttention",
    "StructuralAttention",
    "make_mechanism",
    "register_mechanism",
]

# A new mechanism in this folder is registered without being named above.
import_members(__name__, __path__)
