"""The export format SavedModel, for TensorFlow in any language and TensorFlow Serving."""

import hashlib
import importlib.metadata
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.decoding import Search, SearchSettings
from keras_transformer.export.formats.base import (
    ExportFormat,
    described_export,
    described_weights,
    register_export_format,
)
from keras_transformer.export.golden import make_golden_pair, replay_golden_pairs
from keras_transformer.export.inspection import inspect_export
from keras_transformer.export.manifest import write_manifest
from keras_transformer.export.modules import (
    TextLimits,
    TextModule,
    make_text_module,
    signatures_of_kind,
)
from keras_transformer.export.trained_model import TrainedModel

#: Texts with which every export is tested, in addition to the model's own examples: an empty text,
#: white space, one word, a sentence in several scripts.
BUILT_IN_EXAMPLES = ("", " ", "A", "Two words, и ещё несколько – 三つ 🙂.")
#: Requests that TensorFlow Serving runs when it loads an export, a TFRecord of `PredictionLog`:
#: https://www.tensorflow.org/tfx/serving/saved_model_warmup
WARMUP = "assets.extra/tf_serving_warmup_requests"
#: TensorFlow's hashes of a SavedModel, and a UUID.
FINGERPRINT = "fingerprint.pb"
WEIGHT_DTYPES = ("float32", "float16", "bfloat16", "int8")
#: Aliases of signatures: names of the methods of `keras_transformer.load`.
METHOD_SIGNATURES = {
    "translate": "serving_default",
    "generate": "serving_default",
    "embed": "encode",
}

# Field numbers, from prediction_log.proto, predict.proto and model.proto. Only these fields are
# needed, so they are written here without the package tensorflow-serving-api.
_LOG_PREDICT = 6
_PREDICT_REQUEST = 1
_REQUEST_MODEL, _REQUEST_INPUTS = 1, 2
_MODEL_SIGNATURE = 3
_ENTRY_NAME, _ENTRY_TENSOR = 1, 2

#: A request: the name of a signature, and its inputs by name.
Request = tuple[str, dict[str, np.ndarray]]


@register_export_format("saved_model")
class SavedModelFormat(ExportFormat):
    """A SavedModel that takes strings and returns strings, with tokenizers in its graph.

    Args:
        trained: a `TrainedModel`.
        search: a deterministic `Search` or `SearchSettings`. Default: the search of the recipe.
        limits: a `TextLimits`. Default: what the model is made for.
        weights: dtype in which weights are stored: "float32", "float16", "bfloat16" or "int8",
            which has a scale for each row. Models compute in their own dtype. The effect on the
            answers is measured and written into the manifest. Default "float32".
        signatures: names of the signatures to write, such as "translate" (`serving_default`),
            "score" or "embed" (`encode`). Most of the loading time is spent on the graphs of the
            signatures. Default: all that the model offers.
        xla: whether XLA compiles the searches: faster in the same process, but TensorFlow Serving
            does not load such exports by default. Default False.
        portable: whether to require that all operations are in core TensorFlow, as with a tokenizer
            of bytes. Default False.
    """

    def __init__(
        self,
        trained: TrainedModel,
        *,
        search: Search | SearchSettings | None = None,
        limits: TextLimits | None = None,
        weights: str = "float32",
        signatures: Sequence[str] | None = None,
        xla: bool = False,
        portable: bool = False,
    ) -> None:
        super().__init__(trained)
        self.search = search
        self.limits = limits
        self.weights: str = require_choice("weights", weights, WEIGHT_DTYPES)
        self.signatures: tuple[str, ...] | None = None
        if signatures is not None:
            self.signatures = _chosen_signatures(trained.model, signatures)
        self.xla = xla
        self.portable = portable
        tokenizers = trained.tokenizers.source, trained.tokenizers.target
        for tokenizer in tokenizers if portable else ():
            if tokenizer.registered_name != "bytes":
                raise UserError(
                    "A portable export needs a tokenizer of bytes: the model was trained with a "
                    f"{tokenizer.registered_name!r} tokenizer, whose operations are "
                    "tensorflow-text's.",
                    fix="Train with bytes, or export without `portable`.",
                )

    def write(self, directory: pathlib.Path, name: str, version: int) -> None:
        module = self._make_module(self.weights)
        requests = example_requests(module, self.trained.examples, self.signatures)
        golden = golden_pairs(module, requests)
        difference = None
        if self.weights != "float32":
            exact = golden_pairs(self._make_module(None), requests[:1])
            difference = _difference(exact, golden)

        concrete = {name: module.functions[name].concrete for name, _ in requests}
        tf.saved_model.save(module, os.fspath(directory), signatures=concrete)
        name_by_content(directory)
        # When it batches, TensorFlow Serving refuses scalars; and it does not load a model if a
        # warm-up request fails.
        batched = [each for each in requests if module.functions[each[0]].record.is_batched]
        write_warmup_requests(directory, batched)
        outside_core = inspect_export(directory).outside_core
        if self.portable and outside_core:
            found = ", ".join(outside_core)
            raise UserError(f"A portable export has core operations only; this one has {found}.")
        tensorflow_text = importlib.metadata.version("tensorflow-text") if outside_core else None
        content = {
            **described_export(self.trained, module, name, version, tensorflow_text),
            "ops": {"outside_core": list(outside_core)},
            "weights": described_weights(self.trained.model, self.weights, difference),
            "xla": self.xla,
            "golden": golden,
        }
        if self.signatures is not None:
            content["signatures"] = list(self.signatures)
        write_manifest(directory, content)
        for row in replay_golden_pairs(directory):
            if not row.ok:
                raise RuntimeError(
                    "The exported model gives different answers from the model in memory: "
                    f"{row.difference}. Nothing was written."
                )

    def _make_module(self, stored_dtype: str | None) -> TextModule:
        return make_text_module(self.trained, self.search, self.limits, self.xla, stored_dtype)


def _chosen_signatures(model: keras.Model, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the signatures of a model that a user has named, in the order of their records."""
    offered = [
        record.name
        for record in signatures_of_kind(type(model).__name__)
        if record.requires is None or record.requires(model)
    ]
    methods = {name: each for name, each in METHOD_SIGNATURES.items() if each in offered}
    if "sample" not in offered:  # the model writes no text
        del methods["translate"], methods["generate"]
    if isinstance(names, str) or not names:
        raise ArgumentError("signatures", "a list of names, such as ['translate']", names)
    known = [*offered, *methods]
    chosen = {require_choice("signatures", name, known) for name in names}
    return tuple(name for name in offered if name in {methods.get(each, each) for each in chosen})


def name_by_content(directory: pathlib.Path) -> None:
    """Replaces the random UUID in the fingerprint of a SavedModel by one of its other fields.

    It is the only random part of an export: without it, equal models have equal exports.

    Args:
        directory: directory of the SavedModel.
    """
    path = directory / FINGERPRINT
    # The type stubs are older than the field `uuid`.
    fingerprint: Any = fingerprint_pb2.FingerprintDef.FromString(path.read_bytes())
    fingerprint.ClearField("uuid")
    digest = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
    fingerprint.uuid = str(int.from_bytes(digest[:16], "big"))  # 128 bits, as TensorFlow writes
    path.write_bytes(fingerprint.SerializeToString(deterministic=True))


def example_requests(
    module: TextModule, examples: tuple[str, ...], names: Sequence[str] | None = None
) -> list[Request]:
    """Returns an example request for each signature of a module.

    Args:
        module: a `TextModule`.
        examples: texts in addition to `BUILT_IN_EXAMPLES`.
        names: names of the signatures. Default: all that are not optional.
    """
    texts = np.array([text.encode() for text in (*BUILT_IN_EXAMPLES, *examples)], object)
    # Targets are the model's own answers, so that the scores show how the model rates them.
    answers = module.functions["serving_default"](text=tf.constant(texts)).get("text")
    answers = texts if answers is None else answers.numpy()
    return [
        (name, function.record.example_request(texts, answers))
        for name, function in module.functions.items()
        if (not function.record.is_optional if names is None else name in names)
    ]


def golden_pairs(module: TextModule, requests: list[Request]) -> list[dict[str, Any]]:
    """Returns the golden pairs of requests: the answers of the module in memory."""
    pairs = []
    for name, inputs in requests:
        function = module.functions[name]
        dtypes = {key: tensor.dtype for key, tensor in function.record.inputs.items()}
        tensors = {key: tf.constant(value, dtypes[key]) for key, value in inputs.items()}
        opaque = {key for key, tensor in function.record.outputs.items() if tensor.is_opaque}
        outputs = {key: value for key, value in function(**tensors).items() if key not in opaque}
        pairs.append(make_golden_pair(name, inputs, outputs))
    return pairs


def _difference(exact: list[dict[str, Any]], stored: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns how the first answers with stored weights differ from those with exact weights."""
    before, after = exact[0]["outputs"], stored[0]["outputs"]
    if "text" not in before:
        old, new = np.array(before["embedding"]), np.array(after["embedding"])
        return {"largest_difference_of_embeddings": float(np.max(np.abs(old - new)))}
    is_same = np.array(before["text"], object) == np.array(after["text"], object)
    scores = np.abs(np.array(before["score"], float) - np.array(after["score"], float))
    return {
        "texts": len(is_same),
        "texts_changed": int(np.sum(~is_same)),
        "largest_difference_of_scores": float(np.max(scores[is_same], initial=0.0)),
    }


def write_warmup_requests(
    directory: pathlib.Path, requests: Iterable[tuple[str, Mapping[str, Any]]]
) -> None:
    """Writes the warm-up file of an export.

    TensorFlow Serving does not load a model if a request fails, or if there are more than 1000.

    Args:
        directory: directory of the export.
        requests: pairs of a signature's name and inputs by name, to which it has an answer.
    """
    path = directory / WARMUP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, inputs in requests:
            request = _field(_REQUEST_MODEL, _field(_MODEL_SIGNATURE, name.encode()))
            for key, value in inputs.items():
                tensor = tf.make_tensor_proto(value).SerializeToString()
                entry = _field(_ENTRY_NAME, key.encode()) + _field(_ENTRY_TENSOR, tensor)
                request += _field(_REQUEST_INPUTS, entry)
            writer.write(_field(_LOG_PREDICT, _field(_PREDICT_REQUEST, request)))


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of bytes, text or a message: number and type 2, length, content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Returns a number in groups of seven bits, the lowest group first."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
