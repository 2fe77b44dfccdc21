"""Build, train, watch and serve Transformers in TensorFlow and Keras 3.

Public names are imported on first use (PEP 562), so that `import keras_transformer` and the
command line start without TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from keras_transformer import (
        data,
        decoding,
        export,
        hub,
        inference,
        layers,
        losses,
        metrics,
        models,
        schedules,
        serving,
        text,
        trainer,
    )
    from keras_transformer.export import export_model
    from keras_transformer.hub import load_pretrained
    from keras_transformer.inference import load
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
    from keras_transformer.schedules import CosineDecay, InverseSquareRootDecay, LinearDecay
    from keras_transformer.trainer import train

_MODULES = (
    "data",
    "decoding",
    "export",
    "hub",
    "inference",
    "layers",
    "losses",
    "metrics",
    "models",
    "schedules",
    "serving",
    "text",
    "trainer",
)
_NAMES = {
    "export": ("export_model",),
    "hub": ("load_pretrained",),
    "inference": ("load",),
    "losses": ("TokenCrossEntropy",),
    "metrics": ("Perplexity", "TokenAccuracy"),
    "models": (
        "ConvolutionalSeq2Seq",
        "ConvolutionalSeq2SeqConfig",
        "LanguageModel",
        "LanguageModelConfig",
        "RecurrentSeq2Seq",
        "RecurrentSeq2SeqConfig",
        "TextEncoder",
        "TextEncoderConfig",
        "Transformer",
        "TransformerConfig",
    ),
    "schedules": ("CosineDecay", "InverseSquareRootDecay", "LinearDecay"),
    "trainer": ("train",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "ConvolutionalSeq2Seq",
    "ConvolutionalSeq2SeqConfig",
    "CosineDecay",
    "InverseSquareRootDecay",
    "LanguageModel",
    "LanguageModelConfig",
    "LinearDecay",
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
    "data",
    "decoding",
    "export",
    "export_model",
    "hub",
    "inference",
    "layers",
    "load",
    "load_pretrained",
    "losses",
    "metrics",
    "models",
    "schedules",
    "serving",
    "text",
    "train",
    "trainer",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
