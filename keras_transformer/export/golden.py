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

from keras_transformer.export import replay
from keras_transformer.export.damage import no_tensorflow_text, refused
from keras_transformer.export.manifest import read_manifest

# Another CPU adds numbers in another order.
_TOLERANCE = 1e-4

_COPY_AGAIN = "Copy the directory again, or export again."


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
            if not _agree(expected, self.got.get(name)):
                return name, *_first_difference(expected, self.got.get(name))
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
    """Runs every golden pair of an export in a clean process, and compares the answers.

    The process imports TensorFlow and, if the manifest says that the graph needs its operations,
    tensorflow_text; nothing else. It runs the graph: check the operations first.

    Args:
        directory: directory of the export.

    Returns:
        The results in the order of the manifest.
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
        raise refused(directory, _not_loadable(process.returncode, last_line), _COPY_AGAIN)
    try:
        answers = [json.loads(line) for line in process.stdout.splitlines()]
    except ValueError as error:
        problem = _not_loadable(0, "its process printed no JSON")
        raise refused(directory, problem, _COPY_AGAIN) from error
    if len(answers) != len(golden):
        answered = f"its process ended after {len(answers)} of {len(golden)} golden pairs"
        raise refused(directory, _not_loadable(0, answered), _COPY_AGAIN)
    return [_compared(pair, answer) for pair, answer in zip(golden, answers, strict=True)]


def _library_directories() -> list[str]:
    """Returns the directories from which this process has the libraries of a replay."""
    specs = map(importlib.util.find_spec, ("numpy", "tensorflow", "tensorflow_text"))
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return list(dict.fromkeys(str(pathlib.Path(origin).parents[1]) for origin in origins))


def _compared(pair: dict[str, Any], answer: dict[str, Any]) -> GoldenRow:
    got = answer.get("outputs", answer)
    ok = "outputs" in answer and all(
        name in got and _agree(expected, got[name]) for name, expected in pair["outputs"].items()
    )
    return GoldenRow(pair["signature"], pair["inputs"], pair["outputs"], got, ok)


def _agree(expected: Any, got: Any) -> bool:
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(_agree, expected, got))
    if isinstance(expected, float) and isinstance(got, float):
        return abs(expected - got) <= _TOLERANCE * (1 + abs(expected))
    return type(expected) is type(got) and expected == got


def _first_difference(expected: Any, got: Any) -> tuple[Any, Any]:
    """Returns the innermost values that differ: expected and received."""
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for one, other in zip(expected, got, strict=True):
            if not _agree(one, other):
                return _first_difference(one, other)
    return expected, got


def _not_loadable(code: int, reason: str) -> str:
    ending = f", ended by {signal.Signals(-code).name}" if code < 0 else ""
    if "Op type not registered" in reason:
        reason += "; an operation of tensorflow_text needs `import tensorflow_text` before loading"
    return f"damaged or not loadable{ending}: {reason}."


def _last_line(stderr: bytes) -> str:
    """Returns the last line that is not one of TensorFlow's start-up messages."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    ignored = ("WARNING: All log messages before", "I0000", "W0000")
    lines = [line for line in lines if line and not line.startswith(ignored)]
    return lines[-1] if lines else "it printed nothing"
