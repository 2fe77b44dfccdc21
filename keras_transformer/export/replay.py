"""Answers the golden pairs of an export: python -I replay.py DIRECTORY

A script for a process of its own, which imports TensorFlow (and tensorflow_text if the graph needs
it) and nothing of the package that wrote the export, as a server would. It prints a line of JSON
for each golden pair: {"outputs": …} or {"error": …}.
"""

import base64
import json
import math
import sys
from typing import Any

import numpy as np

# Exit code if tensorflow_text is missing, or does not fit TensorFlow.
NO_TENSORFLOW_TEXT = 3


def to_json(value: Any) -> Any:
    """Returns an array as nested lists for JSON, or a scalar as itself.

    Texts that are not UTF-8 become {"b64": …}, as in TensorFlow Serving. Numbers that JSON lacks
    become their names.

    >>> to_json(np.array([b"yes", b"\\xff"]))
    ['yes', {'b64': '/w=='}]
    >>> to_json(np.array([[0.5, -np.inf]]))
    [[0.5, '-Infinity']]
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value


def from_json(value: Any, dtype: Any) -> np.ndarray:
    """Returns the array that `to_json` wrote, of a NumPy `dtype`; for texts, `np.object_`.

    >>> from_json(["yes", {"b64": "/w=="}], np.object_)
    array([b'yes', b'\\xff'], dtype=object)
    """
    if isinstance(value, list):
        if not value:
            return np.empty((0,), dtype)
        return np.stack([from_json(item, dtype) for item in value])
    if isinstance(value, dict):
        value = base64.b64decode(value["b64"])
    elif isinstance(value, str) and dtype is np.object_:
        value = value.encode("utf-8")
    return np.array(value, dtype)


def main(directory: str) -> int:
    """Prints the answers of an export to its golden pairs, and returns the exit code."""
    with open(f"{directory}/assets.extra/manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    if manifest["ops"]["outside_core"]:
        try:
            import tensorflow_text  # noqa: F401 (registers its operations)
        except Exception as error:  # missing, or built for another TensorFlow
            print(f"{type(error).__name__}: {first_line(error)}", file=sys.stderr)
            return NO_TENSORFLOW_TEXT
    import tensorflow as tf

    signatures = tf.saved_model.load(directory).signatures
    if "keras_transformer" in sys.modules:
        raise ImportError("keras_transformer was imported: the export does not stand alone.")
    for pair in manifest["golden"]:
        try:
            answer = {"outputs": run_pair(tf, signatures, pair)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {first_line(error)}"}
        print(json.dumps(answer), flush=True)
    return 0


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message; TensorFlow's errors have several."""
    return str(getattr(error, "message", error)).strip().partition("\n")[0]


def run_pair(tf: Any, signatures: Any, pair: dict[str, Any]) -> dict[str, Any]:
    """Returns the outputs of the signature for the inputs of a golden pair, by name."""
    signature = signatures[pair["signature"]]
    specs = signature.structured_input_signature[1]
    tensors = {}
    for name, value in pair["inputs"].items():
        spec = specs[name]
        array = from_json(value, spec.dtype.as_numpy_dtype)
        tensors[name] = tf.constant(array, spec.dtype)
    return {name: to_json(tensor.numpy()) for name, tensor in signature(**tensors).items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
