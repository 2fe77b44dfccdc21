"""Functional models, one a file."""

from keras_transformer.models.base import MODELS
from keras_transformer.models.config import PRESETS
from keras_transformer.models.convolutional import ConvolutionalSeq2Seq, ConvolutionalSeq2SeqConfig
from keras_transformer.models.encoder import Memory
from keras_transformer.models.language_model import LanguageModel, LanguageModelConfig
from keras_transformer.models.recurrent import RecurrentSeq2Seq, RecurrentSeq2SeqConfig
from keras_transformer.models.text_encoder import TextEncoder, TextEncoderConfig
from keras_transformer.models.transformer import Transformer, TransformerConfig

__all__ = [
    "MODELS",
    "PRESETS",
    "ConvolutionalSeq2Seq",
    "ConvolutionalSeq2SeqConfig",
    "LanguageModel",
    "LanguageModelConfig",
    "Memory",
    "RecurrentSeq2Seq",
    "RecurrentSeq2SeqConfig",
    "TextEncoder",
    "TextEncoderConfig",
    "Transformer",
    "TransformerConfig",
]
