"""Signatures of an export: one record each, and the check that a graph offers them."""

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from keras_transformer.export.damage import refused
from keras_transformer.export.graph import SignatureFound

_Method = TypeVar("_Method", bound=Callable[..., Any])

#: Signatures of the first version: every export has those that its kind of model declares. A new
#: signature is not added here, or exports that were written before it would be refused.
FIRST_SIGNATURES = ("serving_default", "n_best", "sample", "score", "attention", "encode")


class TensorContract(NamedTuple):
    """A tensor of a signature.

    Attributes:
        dtype: "string", "float32", "int32" or "bool".
        axes: letters of its axes: B rows, N hypotheses, T target tokens, S source tokens, M hidden
            dimension, C classes, L parts of a state.
        example: for an input, its value in the example request: "texts" for the example texts,
            "answers" for the model's own answers to them, "nothing" for no strings, or a number.
        is_opaque: for an output, whether its value means something to the export alone. Golden
            pairs do not have it.
    """

    dtype: str
    axes: str
    example: str | float | None = None
    is_opaque: bool = False

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join(self.axes)}]"


TEXTS = TensorContract("string", "B", example="texts")
ANSWERS = TensorContract("string", "B", example="answers")


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function of an export that takes and returns named tensors.

    To add one, decorate a method of a text module, in `export/modules/`:

        @signature(inputs={"text": TEXTS}, outputs={"embedding": TensorContract("float32", "BM")})
        def encode(self, text): ...

    The exported function, the contract, golden pairs, warm-up requests and the output of `verify`
    follow from the record. The table in saved_models/README.md is written by hand; a test compares
    it with the records, and CONTRIBUTING.md lists what else belongs to a new signature. Exports
    that were written before remain valid: an export must have the signatures of `FIRST_SIGNATURES`
    and those that its own manifest lists, by their golden pairs.

    Attributes:
        name: name of the signature in the SavedModel.
        method: name of the method of the text module that computes it.
        summary: what it returns, one sentence.
        inputs: the inputs by name.
        outputs: the outputs by name. An export may have more.
        requires: function that returns whether a model offers the signature; None if all do.
        is_optional: whether an export has it only if it is asked for by name.

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
    is_optional: bool = False

    @property
    def is_batched(self) -> bool:
        """True if every input has a batch axis, as TensorFlow Serving's batching requires."""
        return all(tensor.axes for tensor in self.inputs.values())

    def example_request(self, texts: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Returns an example of each input, by name.

        Args:
            texts: example texts, bytes `[B]`.
            answers: the model's answers to them, bytes `[B]`.
        """
        rows = {"texts": texts, "answers": answers, "nothing": np.array([], object)}
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
    is_optional: bool = False,
) -> Callable[[_Method], _Method]:
    """Returns a decorator that declares a method of a text module as a signature.

    Args:
        *names: names of the signature; by default the method's.
        inputs, outputs, requires, is_optional: see `Signature`.
    """

    def declare(method: _Method) -> _Method:
        summary = (inspect.getdoc(method) or "").partition("\n\n")[0].replace("\n", " ")
        method.signatures = tuple(  # type: ignore[attr-defined]
            Signature(name, method.__name__, summary, inputs, outputs, requires, is_optional)
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


def check_signatures(
    directory: str | os.PathLike[str],
    found: Mapping[str, SignatureFound],
    kind: str,
    records: Iterable[Signature],
    listed: Iterable[str] = (),
) -> list[str]:
    """Checks that an export offers the signatures that it must, and returns the names of all.

    Args:
        directory: of the export, for messages.
        found: the signatures of the export by name, from `signatures_of`.
        kind: class of the model, for messages.
        records: the signatures that this kind declares, from `signatures_of_kind`.
        listed: names of the signatures that the manifest lists. The export must have them.
    """
    problem = next(_problems(found, kind, tuple(records), listed), None)
    if problem is not None:
        described = "; ".join(
            _described(name, sorted(each.inputs), sorted(each.outputs))
            for name, each in found.items()
        )
        raise refused(
            directory,
            f"{problem}. Signatures found: {described or 'none'}.",
            "Export the model again with `keras-transformer export`.",
        )
    return sorted(found)


def _problems(
    found: Mapping[str, SignatureFound],
    kind: str,
    records: Sequence[Signature],
    listed: Iterable[str],
) -> Iterator[str]:
    """Yields how the signatures of an export differ from what they must be."""
    for record in records:
        if record.name not in found:
            if record.name in FIRST_SIGNATURES and record.requires is None:
                yield f"no signature {record.name!r}, which every {kind} offers"
            continue
        inputs, outputs = found[record.name].inputs, found[record.name].outputs
        sides = ("input", record.inputs, inputs), ("output", record.outputs, outputs)
        for side, declared, tensors in sides:
            for name, wanted in declared.items():
                what = f"{side} {name!r} of {record.name}"
                if name not in tensors:
                    yield f"no {what}"
                    continue
                dtype, rank = tensors[name]
                if dtype != wanted.dtype:
                    yield f"{what} must be {wanted.dtype}, but is {dtype}"
                if rank != len(wanted.axes):
                    axes = ", ".join(wanted.axes)
                    number = "an unknown number of" if rank is None else rank
                    yield f"{what} must have the shape [{axes}], but has {number} axes"
        for name in sorted(inputs.keys() - record.inputs.keys()):
            yield f"{record.name} has another input, {name!r}"
    for name in listed:
        if name not in found:
            yield f"no signature {name!r}, which its manifest lists"


def _described(name: str, inputs: Iterable[str], outputs: Iterable[str]) -> str:
    return f"{name}({', '.join(inputs)}) -> {', '.join(outputs)}"
