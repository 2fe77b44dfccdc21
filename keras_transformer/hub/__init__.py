"""Pretrained models: checkpoints as Hugging Face stores them become models of this package."""

from keras_transformer.hub.checkpoint import Checkpoint
from keras_transformer.hub.family import FAMILIES, Family, load_model, register_family
from keras_transformer.hub.importing import import_model, load_pretrained

__all__ = [
    "FAMILIES",
    "Checkpoint",
    "Family",
    "import_model",
    "load_model",
    "load_pretrained",
    "register_family",
]
