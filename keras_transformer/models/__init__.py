"""Models: functional Keras models that are built from a config and decode token by token."""

from keras_transformer.models.base import MODELS, ConfiguredModel, GenerativeModel, Seq2SeqModel
from keras_transformer.models.config import SIZES, BlockModelConfig, ModelConfig, Seq2SeqConfig
from keras_transformer.models.convolutional import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    ConvolutionalSeq2Seq,
    ConvolutionalSeq2SeqConfig,
)
from keras_transformer.models.decoder import Decoder
from keras_transformer.models.encoder import Encoder, EncoderOutput
from keras_transformer.models.language_model import LanguageModel, LanguageModelConfig
from keras_transformer.models.recurrent import (
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentSeq2Seq,
    RecurrentSeq2SeqConfig,
)
from keras_transformer.models.text_encoder import TextEncoder, TextEncoderConfig
from keras_transformer.models.transformer import Transformer, TransformerConfig

__all__ = [
    "MODELS",
    "SIZES",
    "BlockModelConfig",
    "ConfiguredModel",
    "ConvolutionalDecoder",
    "ConvolutionalEncoder",
    "ConvolutionalSeq2Seq",
    "ConvolutionalSeq2SeqConfig",
    "Decoder",
    "Encoder",
    "EncoderOutput",
    "GenerativeModel",
    "LanguageModel",
    "LanguageModelConfig",
    "ModelConfig",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentSeq2Seq",
    "RecurrentSeq2SeqConfig",
    "Seq2SeqConfig",
    "Seq2SeqModel",
    "TextEncoder",
    "TextEncoderConfig",
    "Transformer",
    "TransformerConfig",
]
