"""The signatures of an export: what a caller may rely on, and whether a graph offers it."""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.export.damage import refused


class TensorContract(NamedTuple):
    """A tensor of a signature.

    Attributes:
        dtype: "string", "float32" or "int32".
        axes: the letters of its shape: B rows, N hypotheses, T target and S source length, M width.
    """

    dtype: str
    axes: str


class SignatureContract(NamedTuple):
    """A signature: its inputs and outputs, each a dictionary of `TensorContract` by name."""

    inputs: dict
    outputs: dict


_TEXTS = TensorContract("string", "B")
_NUMBERS = TensorContract("float32", "B")
_ANSWERS = {"text": _TEXTS, "score": _NUMBERS}
_ENCODE = SignatureContract({"text": _TEXTS}, {"embedding": TensorContract("float32", "BM")})
_TEXT_TO_TEXT = {
    "serving_default": SignatureContract({"text": _TEXTS}, _ANSWERS),
    "n_best": SignatureContract(
        {"text": _TEXTS},
        {"text": TensorContract("string", "BN"), "score": TensorContract("float32", "BN")},
    ),
    "sample": SignatureContract(
        {
            "text": _TEXTS,
            "temperature": TensorContract("float32", ""),
            "seed": TensorContract("int32", ""),
        },
        _ANSWERS,
    ),
    "score": SignatureContract(
        {"source": _TEXTS, "target": _TEXTS},
        {"log_probability": _NUMBERS, "tokens": TensorContract("int32", "B")},
    ),
    "attention": SignatureContract(
        {"source": _TEXTS, "target": _TEXTS},
        {
            "source_tokens": TensorContract("string", "BS"),
            "target_tokens": TensorContract("string", "BT"),
            "weights": TensorContract("float32", "BTS"),
        },
    ),
    "encode": _ENCODE,
}

#: The signatures that each kind of model offers. One may offer more, and more outputs.
CONTRACTS = {
    "Transformer": _TEXT_TO_TEXT,
    "RecurrentSeq2Seq": _TEXT_TO_TEXT,
    "ConvolutionalSeq2Seq": _TEXT_TO_TEXT,
    "LanguageModel": _TEXT_TO_TEXT,
    "TextEncoder": {"serving_default": _ENCODE, "encode": _ENCODE},
}

# What TensorFlow keeps among the signatures, such as "__saved_model_init_op", is nobody's to call.
_INTERNAL = "__saved_model_"


def dtype_name(number):
    """Returns the name of a dtype in a protobuf, whatever number stands there.

    >>> dtype_name(7), dtype_name(9999)
    ('string', 'dtype 9999')
    """
    try:
        return tf.as_dtype(number).name
    except TypeError:
        return f"dtype {number}"


def signatures_of(meta_graph):
    """Returns the `SignatureDef` of every signature that callers see, by name and in order."""
    names = sorted(name for name in meta_graph.signature_def if not name.startswith(_INTERNAL))
    return {name: meta_graph.signature_def[name] for name in names}


def check_signatures(directory, meta_graph, kind):
    """Checks that an export offers the signatures of its kind, and returns their names.

    Args:
        directory: of the export, for messages.
        meta_graph: from `read_meta_graph`.
        kind: a key of `CONTRACTS`.
    """
    found = signatures_of(meta_graph)
    for name, contract in CONTRACTS[kind].items():
        if name not in found:
            raise _broken(directory, found, f"no signature {name!r}, which every {kind} offers")
        inputs, outputs = found[name].inputs, found[name].outputs
        for tensor, wanted in contract.inputs.items():
            _check_tensor(directory, found, f"input {tensor!r} of {name}", inputs, tensor, wanted)
        for tensor, wanted in contract.outputs.items():
            _check_tensor(directory, found, f"output {tensor!r} of {name}", outputs, tensor, wanted)
        for tensor in sorted(inputs.keys() - contract.inputs.keys()):
            raise _broken(directory, found, f"{name} asks for another input, {tensor!r}")
    return list(found)


def _check_tensor(directory, found, what, tensors, name, wanted):
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
        came = f"has {rank} axes" if is_known else "has an unknown number of axes"
        raise _broken(directory, found, f"{what} must have the shape {shape}, but {came}")


def _broken(directory, found, what):
    listed = "; ".join(_described(name, signature) for name, signature in found.items())
    return refused(
        directory,
        f"{what}. Signatures found: {listed or 'none'}. Export the model again with "
        "`keras-transformer export`.",
    )


def _described(name, signature):
    """A signature as a person reads it: serving_default(text) -> score, text."""
    return (
        f"{name}({', '.join(sorted(signature.inputs))}) -> {', '.join(sorted(signature.outputs))}"
    )
