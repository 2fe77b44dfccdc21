"""Export of trained models as SavedModels that take strings, and their verification."""

from keras_transformer.export.exporting import export_model
from keras_transformer.export.formats import FORMATS, ExportFormat, register_export_format
from keras_transformer.export.modules import TextLimits, make_text_module
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.export.verification import Verification, verify_export

__all__ = [
    "FORMATS",
    "ExportFormat",
    "TextLimits",
    "TrainedModel",
    "Verification",
    "export_model",
    "make_text_module",
    "register_export_format",
    "verify_export",
]
