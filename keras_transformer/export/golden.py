"""Golden pairs: answers of a model in memory, and whether its export still gives them."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.export import replay
from keras_transformer.export.damage import no_tensorflow_text
from keras_transformer.export.inspection import last_line, not_loadable, run_on_export
from keras_transformer.export.manifest import read_manifest

# On another CPU, numbers are added in another order.
TOLERANCE = 1e-4


class GoldenRow(NamedTuple):
    """Result of replaying a golden pair.

    Attributes:
        signature: name of the signature.
        input: the inputs, nested lists by name.
        expected: the answers of the model in memory, nested lists by name.
        got: the answers of the export, or `{"error": message}`.
        ok: whether they agree: texts and integers exactly, other numbers within 0.0001.
    """

    signature: str
    input: dict[str, Any]
    expected: dict[str, Any]
    got: dict[str, Any]
    ok: bool

    @property
    def difference(self) -> tuple[str, Any, Any] | None:
        """The first output that differs, with the values expected and received; None if equal."""
        if "error" in self.got and "error" not in self.expected:
            return "error", None, self.got["error"]
        for name, expected in self.expected.items():
            values = _difference(expected, self.got.get(name))
            if values is not None:
                return name, *values
        return None


def make_golden_pair(
    signature: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a golden pair for the manifest.

    Args:
        signature: name of the signature.
        inputs: tensors or arrays by name.
        outputs: tensors or arrays by name: the answers of the model in memory.

    >>> make_golden_pair("serving_default", {"text": np.array([b"a"])}, {"score": np.ones(1)})
    {'signature': 'serving_default', 'inputs': {'text': ['a']}, 'outputs': {'score': [1.0]}}
    """
    return {
        "signature": signature,
        "inputs": {name: replay.to_json(np.asarray(value)) for name, value in inputs.items()},
        "outputs": {name: replay.to_json(np.asarray(value)) for name, value in outputs.items()},
    }


def replay_golden_pairs(directory: str | os.PathLike[str]) -> list[GoldenRow]:
    """Returns the result of every golden pair of an export, run in a clean, sandboxed process.

    The process imports TensorFlow and, if the manifest says that the graph needs its operations,
    tensorflow_text; nothing else. It runs the graph: check the operations first. Neither PYTHONPATH
    nor the current directory can supply modules; directories from which this process has its
    libraries, as on a cluster, are searched last.

    Args:
        directory: directory of the export.
    """
    directory = pathlib.Path(directory).absolute()
    golden = read_manifest(directory)["golden"]
    result = run_on_export(replay.__file__, directory)
    if result.returncode == replay.NO_TENSORFLOW_TEXT:
        raise no_tensorflow_text(directory, last_line(result.stderr))
    if result.returncode or result.stopped:
        raise not_loadable(directory, result)
    try:
        answers = [json.loads(line) for line in result.stdout.splitlines()]
    except ValueError as error:
        raise not_loadable(directory, result, "its process printed no JSON") from error
    if len(answers) != len(golden):
        answered = f"its process ended after {len(answers)} of {len(golden)} golden pairs"
        raise not_loadable(directory, result, answered)
    return [compare_answer(pair, answer) for pair, answer in zip(golden, answers, strict=True)]


def compare_answer(
    pair: dict[str, Any], answer: dict[str, Any], tolerance: float = TOLERANCE
) -> GoldenRow:
    """Returns the result of a golden pair.

    Args:
        pair: the golden pair of the manifest.
        answer: the answer of a replay, {"outputs": …} or {"error": …}.
        tolerance: largest relative difference of numbers. Default 0.0001.
    """
    got = answer.get("outputs", answer)
    ok = "outputs" in answer and all(
        name in got and _difference(expected, got[name], tolerance) is None
        for name, expected in pair["outputs"].items()
    )
    return GoldenRow(pair["signature"], pair["inputs"], pair["outputs"], got, ok)


def _difference(expected: Any, got: Any, tolerance: float = TOLERANCE) -> tuple[Any, Any] | None:
    """Returns the innermost values that differ, expected and received; None if there are none."""
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = zip(expected, got, strict=True)
        return next(filter(None, (_difference(*each, tolerance) for each in pairs)), None)
    if isinstance(expected, float) and isinstance(got, float):
        agree = abs(expected - got) <= tolerance * (1 + abs(expected))
    else:
        agree = type(expected) is type(got) and expected == got
    return None if agree else (expected, got)
