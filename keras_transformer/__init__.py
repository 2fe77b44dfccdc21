"""Build, train, watch and serve Transformers in TensorFlow and Keras 3.

Importing the package registers its layers, models, losses and metrics with Keras, so that
`keras.models.load_model` finds them.
"""

import sys
from pathlib import Path

from keras_transformer.version import __version__

# TensorFlow takes seconds to import. The command line must answer `--help` sooner, and be the one
# to quieten TensorFlow's start, so it imports for itself what it needs.
if Path(getattr(sys, "argv", [""])[0]).name != "keras-transformer":
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ImportError(
            f"keras_transformer runs on Keras' TensorFlow backend; it is set to "
            f"'{keras.backend.backend()}'. Set KERAS_BACKEND=tensorflow before Keras is imported."
        )

    from keras_transformer import layers, models
    from keras_transformer.losses import TokenCrossEntropy
    from keras_transformer.metrics import Perplexity, TokenAccuracy
    from keras_transformer.models import (
        ConvolutionalSeq2Seq,
        ConvolutionalSeq2SeqConfig,
        LanguageModel,
        LanguageModelConfig,
        RecurrentSeq2Seq,
        RecurrentSeq2SeqConfig,
        TextEncoder,
        TextEncoderConfig,
        Transformer,
        TransformerConfig,
    )
    from keras_transformer.schedules import Cosine, InverseSquareRoot, Linear

__all__ = [
    "ConvolutionalSeq2Seq",
    "ConvolutionalSeq2SeqConfig",
    "Cosine",
    "InverseSquareRoot",
    "LanguageModel",
    "LanguageModelConfig",
    "Linear",
    "Perplexity",
    "RecurrentSeq2Seq",
    "RecurrentSeq2SeqConfig",
    "TextEncoder",
    "TextEncoderConfig",
    "TokenAccuracy",
    "TokenCrossEntropy",
    "Transformer",
    "TransformerConfig",
    "__version__",
    "layers",
    "models",
]
