"""Export formats: a registry, with one file per format."""

from keras_transformer._utils.registry import import_members
from keras_transformer.export.formats.base import FORMATS, ExportFormat, register_export_format

__all__ = ["FORMATS", "ExportFormat", "register_export_format"]

import_members(__name__, __path__)
