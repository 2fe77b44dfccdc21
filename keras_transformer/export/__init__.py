"""From a trained model to a SavedModel that takes strings and returns strings."""

from keras_transformer.export.exporting import export_model
from keras_transformer.export.text_model import TextModel, open_text_model
from keras_transformer.export.text_module import TextLimits
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.export.verification import Verification, verify_export

__all__ = [
    "TextLimits",
    "TextModel",
    "TrainedModel",
    "Verification",
    "export_model",
    "open_text_model",
    "verify_export",
]
