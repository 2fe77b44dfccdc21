"""Golden pairs: answers of a model in memory, and whether its export still gives them."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer.export import replay
from keras_transformer.export.damage import COPY_AGAIN, no_tensorflow_text, refused
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
    """Returns the result of every golden pair of an export, run in a clean process.

    The process imports TensorFlow and, if the manifest says that the graph needs its operations,
    tensorflow_text; nothing else. It runs the graph: check the operations first.

    Args:
        directory: directory of the export.
    """
    directory = pathlib.Path(directory).absolute()
    golden = read_manifest(directory)["golden"]
    # Isolated: neither PYTHONPATH nor the current directory can supply modules. Directories from
    # which this process has its libraries, as on a cluster, are searched last.
    process = subprocess.run(
        [sys.executable, "-I", replay.__file__, str(directory), *_library_directories()],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    last_line = _last_line(process.stderr)
    if process.returncode == replay.NO_TENSORFLOW_TEXT:
        raise no_tensorflow_text(directory, last_line)
    if process.returncode:
        raise _not_loadable(directory, last_line, process.returncode)
    try:
        answers = [json.loads(line) for line in process.stdout.splitlines()]
    except ValueError as error:
        raise _not_loadable(directory, "its process printed no JSON") from error
    if len(answers) != len(golden):
        answered = f"its process ended after {len(answers)} of {len(golden)} golden pairs"
        raise _not_loadable(directory, answered)
    return [compare_answer(pair, answer) for pair, answer in zip(golden, answers, strict=True)]


def _library_directories() -> list[str]:
    """Returns the directories from which this process has the libraries of a replay."""
    specs = map(importlib.util.find_spec, ("numpy", "tensorflow", "tensorflow_text"))
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return list(dict.fromkeys(str(pathlib.Path(origin).parents[1]) for origin in origins))


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


def _not_loadable(directory: pathlib.Path, reason: str, code: int = 0) -> UserError:
    ending = f", ended by {signal.Signals(-code).name}" if code < 0 else ""
    if "Op type not registered" in reason:
        reason += "; an operation of tensorflow_text needs `import tensorflow_text` before loading"
    problem = f"damaged or not loadable{ending}: {reason}."
    return refused(directory, problem, COPY_AGAIN)


def _last_line(stderr: bytes) -> str:
    """Returns the last line that is not one of TensorFlow's start-up messages."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    ignored = ("WARNING: All log messages before", "I0000", "W0000")
    lines = [line for line in lines if line and not line.startswith(ignored)]
    return lines[-1] if lines else "it printed nothing"
