"""A loaded SavedModel in a session of its own, and the signatures that it offers."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.serving.errors import Code, RequestError, invalid

#: Arrays by name: the inputs or outputs of a signature.
Arrays = dict[str, np.ndarray]

DEFAULT_SIGNATURE = "serving_default"
#: File of warm-up requests. `export` writes it; importing it from there would import Keras.
WARMUP = "assets.extra/tf_serving_warmup_requests"
_INTERNAL = "__saved_model_"
_LONGEST_MESSAGE = 1_000
# TensorFlow Serving reads no more records, either.
_MAXIMUM_WARMUP_RECORDS = 1_000


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Dtype and shape of an input or output.

    Attributes:
        dtype: name of the dtype, such as "string" or "float32".
        shape: sizes of the axes, None where they vary; None if even their number does.
    """

    dtype: str
    shape: tuple[int | None, ...] | None

    def accepts(self, array: np.ndarray) -> bool:
        """Returns whether an array has this shape."""
        if self.shape is None:
            return True
        sizes = zip(self.shape, array.shape, strict=False)
        return len(self.shape) == array.ndim and all(a in (None, b) for a, b in sizes)


@dataclasses.dataclass(frozen=True)
class ServedSignature:
    """Inputs and outputs of a signature by name, read from the SavedModel.

    Attributes:
        name: name of the signature.
        inputs: the inputs by name.
        outputs: the outputs by name.
    """

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    @functools.cached_property
    def is_batched(self) -> bool:
        """True if requests can share a batch: each row's answer is independent of the others.

        All inputs must have the batch axis alone, and all outputs a fixed size beyond it. The
        padding of `attention` depends on the widest row, and `sample` has scalars.
        """
        return all(spec.shape == (None,) for spec in self.inputs.values()) and all(
            spec.shape is not None and spec.shape[:1] == (None,) and None not in spec.shape[1:]
            for spec in self.outputs.values()
        )

    def rows(self, inputs: Arrays) -> int:
        """Returns the number of rows of a request, of its longest input; 1 if all are scalars.

        A request whose arrays do not fit the signature is a `RequestError`.
        """
        if inputs.keys() != self.inputs.keys():
            extra = ",".join(sorted(inputs.keys() - self.inputs.keys()))
            missing = ",".join(sorted(self.inputs.keys() - inputs.keys()))
            raise invalid(
                f"input size does not match signature: {len(inputs)}!={len(self.inputs)}. "
                f"Sent extra: {{{extra}}}. Missing but required: {{{missing}}}."
            )
        sizes = set()
        for name, spec in self.inputs.items():
            array = inputs[name]
            if not spec.accepts(array):
                expected = ["?" if size is None else size for size in spec.shape or ()]
                shown = ",".join(map(str, expected))
                problem = f"must have the shape [{shown}], but has {list(array.shape)}"
                raise invalid(f"input {name!r} of {self.name} {problem}.")
            if spec.shape is not None and spec.shape[:1] == (None,):
                sizes.add(len(array))
        if self.is_batched and len(sizes) > 1:
            raise invalid(f"the inputs of {self.name} have different numbers of rows.")
        return max(sizes, default=1)


class Servable:
    """An exported SavedModel, loaded into a TensorFlow session of its own.

    `tf.saved_model.load` keeps memory when a model is replaced; a session gives it back.

    Args:
        directory: version directory of a verified export.
        threads: number of threads that call `run` at the same time. Each call computes in one
            thread. Default 1.

    Example:

    ```python
    servable = Servable("saved_models/dates/1")
    servable.run("serving_default", [{"text": np.array([b"7 mars 2025"], object)}])
    ```
    """

    def __init__(self, directory: str | os.PathLike[str], threads: int = 1) -> None:
        self.directory: pathlib.Path = pathlib.Path(directory)
        graph = tf.Graph()
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=threads,
            use_per_session_threads=True,
        )
        self._session: Any = tf.compat.v1.Session(graph=graph, config=config)
        with graph.as_default():
            loader: Any = tf.compat.v1.saved_model.loader
            meta_graph = loader.load(self._session, ["serve"], os.fspath(directory))
        self.signature_defs: dict[str, Any] = {
            name: each
            for name, each in sorted(meta_graph.signature_def.items())
            if not name.startswith(_INTERNAL)
        }
        self.signatures: dict[str, ServedSignature] = {
            name: ServedSignature(name, _specs(each.inputs), _specs(each.outputs))
            for name, each in self.signature_defs.items()
        }
        self._callables: dict[str, Any] = {
            name: self._session.make_callable(
                [each.outputs[output].name for output in self.signatures[name].outputs],
                [each.inputs[key].name for key in self.signatures[name].inputs],
            )
            for name, each in self.signature_defs.items()
        }

    def run(self, name: str, requests: Sequence[Arrays]) -> list[Arrays | RequestError]:
        """Answers requests for a signature in one batch.

        If the batch fails, each request runs alone, so that only the wrong ones fail.

        Args:
            name: name of the signature.
            requests: inputs of each request, checked by `ServedSignature.rows`. Several requests
                must be for a signature that `is_batched`.
        """
        signature = self.signatures[name]
        if len(requests) == 1:
            try:
                return [self._call(signature, requests[0])]
            except tf.errors.OpError as error:
                return [request_error(error)]
        batch = {
            key: np.concatenate([request[key] for request in requests]) for key in signature.inputs
        }
        try:
            outputs = self._call(signature, batch)
        except tf.errors.OpError:
            return [answer for request in requests for answer in self.run(name, [request])]
        sizes = [len(next(iter(request.values()))) for request in requests]
        ends = np.cumsum(sizes)
        return [
            {key: value[end - size : end] for key, value in outputs.items()}
            for size, end in zip(sizes, ends, strict=True)
        ]

    def _call(self, signature: ServedSignature, inputs: Arrays) -> Arrays:
        values = self._callables[signature.name](*(inputs[key] for key in signature.inputs))
        return dict(zip(signature.outputs, values, strict=True))

    def warm_up(self) -> int:
        """Answers the requests of the warm-up file, and returns their number.

        As in TensorFlow Serving, a request that fails is an error; a missing file is not.
        """
        from keras_transformer.serving.messages import prediction_log_pb2
        from keras_transformer.serving.tensor_protos import inputs_from_proto

        path = self.directory / WARMUP
        if not path.exists():
            return 0
        count = 0
        for record in tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator():
            if count == _MAXIMUM_WARMUP_RECORDS:
                raise invalid(f"more than {_MAXIMUM_WARMUP_RECORDS} warm-up requests")
            request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
            signature = find_signature(self.signatures, request.model_spec.signature_name)
            inputs = inputs_from_proto(request.inputs, signature)
            signature.rows(inputs)
            for answer in self.run(signature.name, [inputs]):
                if isinstance(answer, RequestError):
                    raise answer
            count += 1
        return count

    def close(self) -> None:
        """Releases the memory. No call may be running."""
        self._callables.clear()
        self._session.close()


def find_signature(signatures: Mapping[str, ServedSignature], name: str) -> ServedSignature:
    """Returns a signature by name, the default one for an empty name."""
    name = name or DEFAULT_SIGNATURE
    if name not in signatures:
        raise invalid(f'Serving signature name: "{name}" not found in signature def')
    return signatures[name]


def request_error(error: tf.errors.OpError) -> RequestError:
    """Returns the error of a request whose computation failed, with its cause as text."""
    lines = str(error.message).strip().split("\n")
    # TensorFlow's text about a node of a loaded graph begins with its history; the cause follows.
    named = [number for number, line in enumerate(lines[:-1]) if line.startswith("Node: ")]
    message = lines[named[-1] + 1] if named else lines[0]
    return RequestError(Code(error.error_code), message.strip()[:_LONGEST_MESSAGE])


def _specs(tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(tf.as_dtype(info.dtype).name, _shape(info.tensor_shape))
        for name, info in sorted(tensors.items())
    }


def _shape(shape: Any) -> tuple[int | None, ...] | None:
    if shape.unknown_rank:
        return None
    return tuple(None if axis.size < 0 else axis.size for axis in shape.dim)
