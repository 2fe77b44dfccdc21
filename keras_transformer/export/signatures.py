"""Signatures of an export: one record each, and the check that a graph offers them.

A text module declares a signature where its method is:

    @signature(inputs={"text": TEXTS}, outputs={"embedding": TensorContract("float32", "BM")})
    def encode(self, text): ...

The exported function, the contract, golden pairs, warm-up requests, the output of `verify` and the
table in saved_models/README.md follow from that record.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export.damage import refused

_Method = TypeVar("_Method", bound=Callable[..., Any])

# TensorFlow keeps entries such as "__saved_model_init_op" among the signatures; users cannot call
# them.
_INTERNAL = "__saved_model_"


class TensorContract(NamedTuple):
    """A tensor of a signature.

    Attributes:
        dtype: "string", "float32" or "int32".
        axes: letters of its axes: B rows, N hypotheses, T target tokens, S source tokens, M hidden
            dimension, C classes.
        example: for an input, its value in the example request: "texts" for the example texts,
            "answers" for the model's own answers to them, or a number.
    """

    dtype: str
    axes: str
    example: str | float | None = None

    @property
    def spec(self) -> tf.TensorSpec:
        """The tensor as TensorFlow describes it; the sizes of its axes are unknown."""
        return tf.TensorSpec([None] * len(self.axes), self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join(self.axes)}]"


TEXTS = TensorContract("string", "B", example="texts")
ANSWERS = TensorContract("string", "B", example="answers")


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function of an export that takes and returns named tensors.

    Attributes:
        name: name of the signature in the SavedModel.
        method: name of the method of the text module that computes it.
        summary: what it returns, one sentence.
        inputs: the inputs by name.
        outputs: the outputs by name. An export may have more.
        requires: function of the model that tells whether the module offers the signature; None if
            every module of the class does.

    >>> encode = Signature("encode", "encode", "", {"text": TEXTS}, {"embedding": ANSWERS})
    >>> str(encode), encode.is_batched
    ('encode(text) -> embedding', True)
    """

    name: str
    method: str
    summary: str
    inputs: Mapping[str, TensorContract]
    outputs: Mapping[str, TensorContract]
    requires: Callable[[Any], bool] | None = None

    @property
    def is_batched(self) -> bool:
        """True if every input has a batch axis, as TensorFlow Serving's batching requires."""
        return all(tensor.axes for tensor in self.inputs.values())

    def example_request(self, texts: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Returns arrays by name that the signature can be called with.

        Args:
            texts: example texts, bytes `[B]`.
            answers: the model's answers to them, bytes `[B]`.
        """
        rows = {"texts": texts, "answers": answers}
        return {
            name: rows[tensor.example]
            if isinstance(tensor.example, str)
            else np.array(tensor.example, tensor.dtype)
            for name, tensor in self.inputs.items()
        }

    def __str__(self) -> str:
        return _described(self.name, self.inputs, self.outputs)


def signature(
    *names: str,
    inputs: Mapping[str, TensorContract],
    outputs: Mapping[str, TensorContract],
    requires: Callable[[Any], bool] | None = None,
) -> Callable[[_Method], _Method]:
    """Returns a decorator that declares a method of a text module as a signature.

    Args:
        *names: names of the signature; by default the method's.
        inputs: see `Signature`.
        outputs: see `Signature`.
        requires: see `Signature`.
    """

    def declare(method: _Method) -> _Method:
        summary = (inspect.getdoc(method) or "").partition("\n\n")[0].replace("\n", " ")
        method.signatures = tuple(  # type: ignore[attr-defined]
            Signature(name, method.__name__, summary, inputs, outputs, requires)
            for name in names or (method.__name__,)
        )
        return method

    return declare


def declared_signatures(module_class: type) -> tuple[Signature, ...]:
    """Returns the signatures that a class of text modules declares or inherits, in order."""
    records: dict[str, Signature] = {}
    for base in reversed(module_class.__mro__):
        for member in vars(base).values():
            for record in getattr(member, "signatures", ()):
                records[record.name] = record
    return tuple(records.values())


def described_tensors(tensors: Mapping[str, TensorContract], quote: str = "`") -> str:
    """Returns tensors as a person reads them.

    >>> described_tensors({"text": TEXTS, "score": TensorContract("float32", "BN")})
    '`text`: string [B], `score`: float32 [B, N]'
    """
    return ", ".join(f"{quote}{name}{quote}: {tensor}" for name, tensor in tensors.items())


def dtype_name(number: int) -> str:
    """Returns the name of a dtype in a protobuf, also for numbers that are no dtype.

    >>> dtype_name(7), dtype_name(9999)
    ('string', 'dtype 9999')
    """
    try:
        return tf.as_dtype(number).name
    except TypeError:
        return f"dtype {number}"


def signatures_of(meta_graph: Any) -> dict[str, Any]:
    """Returns the `SignatureDef` of every signature that users can call, sorted by name."""
    names = sorted(name for name in meta_graph.signature_def if not name.startswith(_INTERNAL))
    return {name: meta_graph.signature_def[name] for name in names}


def check_signatures(
    directory: str | os.PathLike[str],
    meta_graph: Any,
    kind: str,
    records: Iterable[Signature],
) -> list[str]:
    """Checks that an export offers the signatures of its kind of model, and returns their names.

    Args:
        directory: of the export, for messages.
        meta_graph: from `read_meta_graph`.
        kind: class of the model, for messages.
        records: the signatures of this kind, from `signatures_of_kind`.
    """
    found = signatures_of(meta_graph)
    for record in records:
        name = record.name
        if name not in found:
            if record.requires is not None:
                continue
            raise _broken(directory, found, f"no signature {name!r}, which every {kind} offers")
        inputs, outputs = found[name].inputs, found[name].outputs
        for tensor, wanted in record.inputs.items():
            _check_tensor(directory, found, f"input {tensor!r} of {name}", inputs, tensor, wanted)
        for tensor, wanted in record.outputs.items():
            _check_tensor(directory, found, f"output {tensor!r} of {name}", outputs, tensor, wanted)
        for tensor in sorted(inputs.keys() - record.inputs.keys()):
            raise _broken(directory, found, f"{name} has another input, {tensor!r}")
    return list(found)


def _check_tensor(
    directory: str | os.PathLike[str],
    found: Mapping[str, Any],
    what: str,
    tensors: Any,
    name: str,
    wanted: TensorContract,
) -> None:
    if name not in tensors:
        raise _broken(directory, found, f"no {what}")
    tensor = tensors[name]
    dtype = dtype_name(tensor.dtype)
    if dtype != wanted.dtype:
        raise _broken(directory, found, f"{what} must be {wanted.dtype}, but is {dtype}")
    is_known = not tensor.tensor_shape.unknown_rank
    rank = len(tensor.tensor_shape.dim)
    if not is_known or rank != len(wanted.axes):
        shape = f"[{', '.join(wanted.axes)}]"
        got = f"has {rank} axes" if is_known else "has an unknown number of axes"
        raise _broken(directory, found, f"{what} must have the shape {shape}, but {got}")


def _broken(directory: str | os.PathLike[str], found: Mapping[str, Any], problem: str) -> UserError:
    listed = "; ".join(
        _described(name, sorted(each.inputs), sorted(each.outputs)) for name, each in found.items()
    )
    return refused(
        directory,
        f"{problem}. Signatures found: {listed or 'none'}.",
        "Export the model again with `keras-transformer export`.",
    )


def _described(name: str, inputs: Iterable[str], outputs: Iterable[str]) -> str:
    return f"{name}({', '.join(inputs)}) -> {', '.join(outputs)}"
