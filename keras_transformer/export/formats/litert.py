"""The export format LiteRT (TensorFlow Lite), for phones and small computers."""

import pathlib
import re
import tempfile
from typing import Any, ClassVar

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import Search
from keras_transformer.export.formats.base import register_export_format
from keras_transformer.export.formats.runtime import RuntimeFormat
from keras_transformer.export.step_functions import StepFunctions, constant_function

MODEL = "model.tflite"


@register_export_format("litert")
class LiteRTFormat(RuntimeFormat):
    """A `.tflite` file with whole searches, tokenizers and a program that runs it.

    The file has built-in operations only. Its signatures take and return ids:

    - "search", "greedy": ids `[B, S]` of sources with the end id, or of prompts, padded at the end;
      they return the best "ids" `[B, 1, T]` and "score" `[B, 1]`;
    - "encode", "step": see `StepFunctions`, for a search of your own.

    Args:
        trained: a `TrainedModel` of a model that writes text.
        search: a deterministic `Search` or `SearchSettings`. Default: the search of the recipe.
        limits: a `TextLimits`. Default: what the model is made for.
        weights: dtype of the stored weights, "float32", "float16" or "int8". Default "float32".
    """

    runtime: ClassVar[str] = "LiteRT"
    packages: ClassVar[tuple[str, ...]] = ("ai-edge-litert", "sentencepiece")
    modules: ClassVar[tuple[str, ...]] = ("ai_edge_litert", "sentencepiece")
    golden_signatures: ClassVar[tuple[str, ...]] = ("serving_default",)

    def golden_search(self) -> Search:
        return self.search  # the file has all of it

    def convert(self, directory: pathlib.Path, weights: str) -> None:
        functions = self._functions()
        with tempfile.TemporaryDirectory() as temporary:
            tf.saved_model.save(tf.Module(), temporary, signatures=functions)
            converter = tf.lite.TFLiteConverter.from_saved_model(
                temporary, signature_keys=list(functions)
            )
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            if weights != "float32":
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            if weights == "float16":
                converter.target_spec.supported_types = [tf.float16]
            try:
                content = converter.convert()
            except Exception as error:
                raise self._not_convertible(error) from error
        (directory / MODEL).write_bytes(content)

    def _functions(self) -> dict[str, Any]:
        """Returns the concrete functions of the signatures, by name."""
        # Prompt and continuation, and the start id.
        capacity = self.search.lengths.maximum + self.module.limits.tokens + 1
        if self.model.position_limit is not None:
            capacity = min(capacity, self.model.position_limit)
        steps = StepFunctions(self.model, capacity)
        searches = {"greedy": super().golden_search(), "search": self.search}
        ids = tf.TensorSpec([None, None], tf.int32, name="ids")
        functions = {
            name: constant_function(self.model, self._searching(search, capacity), [ids])
            for name, search in searches.items()
        }
        functions["step"] = steps.step()
        if steps.encode is not None:
            functions["encode"] = steps.encode
        return functions

    def _searching(self, search: Search, capacity: int) -> Any:
        model, name = _FixedRoom(self.model, capacity), self.module.input_name

        def find(ids: tf.Tensor) -> dict[str, tf.Tensor]:
            given: dict[str, Any] = {name: ids}
            found = search.with_n_best(1)(model, **given)
            return {"ids": found.ids, "score": found.score}

        return find

    def _not_convertible(self, error: Exception) -> UserError:
        """Returns the `UserError` for a model that the converter refuses."""
        named = re.findall(r"(?:TF Select|Custom) ops: ([^\n]+)", str(error))
        if named:
            return self.cannot(f"the operations {', '.join(dict.fromkeys(named))} of this model")
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return self.cannot(f"this model ({lines[0][:200]})")


class _FixedRoom:
    """A model whose caches have a fixed size, as LiteRT requires.

    Args:
        model: the model.
        capacity: number of tokens that its caches have space for.
    """

    def __init__(self, model: Any, capacity: int) -> None:
        self._model = model
        self._capacity = capacity
        self.special_ids = model.special_ids
        self.position_limit = model.position_limit
        self.step = model.step
        if hasattr(model, "encode"):
            self.encode = model.encode

    def initial_state(self, read: Any, max_length: Any = None) -> dict[str, Any]:
        return self._model.initial_state(read, self._capacity)
