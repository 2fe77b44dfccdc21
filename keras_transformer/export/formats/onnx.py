"""The export format ONNX, for ONNX Runtime in many languages and on many kinds of hardware."""

import importlib
import pathlib
from typing import Any, ClassVar

import tensorflow as tf

from keras_transformer.decoding.constraints import ForbiddenTokens
from keras_transformer.export.formats.base import register_export_format
from keras_transformer.export.formats.runtime import RuntimeFormat
from keras_transformer.export.modules import make_text_module
from keras_transformer.export.step_functions import StepFunctions

#: Version of the ONNX operators.
OPSET = 17


@register_export_format("onnx")
class OnnxFormat(RuntimeFormat):
    """Encoder and decoder step as ONNX files, with tokenizers and a program for greedy search.

    `encode.onnx` and `step.onnx` are the functions of `StepFunctions`, with caches that grow. A
    language model has no encoder. Whole searches are not converted: they would give wrong answers
    without an error.

    Args:
        trained: a `TrainedModel` of a model that writes text.
        search: `Search` or `SearchSettings`, from which the program takes the length limits and the
            forbidden tokens. Default: the search of the recipe.
        limits: a `TextLimits`. Default: what the model is made for.
        weights: dtype of the stored weights, only "float32".
    """

    runtime: ClassVar[str] = "ONNX Runtime"
    packages: ClassVar[tuple[str, ...]] = ("onnxruntime", "tf2onnx", "sentencepiece")
    modules: ClassVar[tuple[str, ...]] = ("onnxruntime", "sentencepiece")
    golden_signatures: ClassVar[tuple[str, ...]] = ("serving_default",)
    weight_dtypes: ClassVar[tuple[str, ...]] = ("float32",)

    def check(self) -> None:
        for constraint in self.search.constraints:
            if not isinstance(constraint, ForbiddenTokens):
                raise self.cannot(f"the constraint {constraint!r}", "Leave it out.")
        # The program has only greedy search.
        self.search: Any = self.golden_search()
        self.module: Any = make_text_module(self.trained, self.search, self.module.limits)

    def convert(self, directory: pathlib.Path, weights: str) -> None:
        steps = StepFunctions(self.model)
        _convert(steps.step(), directory / "step.onnx")
        if steps.encode is not None:
            _convert(steps.encode, directory / "encode.onnx")


def _convert(concrete: Any, path: pathlib.Path) -> None:
    """Writes a concrete function as an ONNX file."""
    tf2onnx: Any = importlib.import_module("tf2onnx")
    specs = concrete.structured_input_signature[0]
    function = tf.function(lambda *tensors: concrete(*tensors), autograph=False)
    tf2onnx.convert.from_function(
        function, input_signature=specs, opset=OPSET, output_path=str(path)
    )
