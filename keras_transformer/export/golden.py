"""Golden pairs: what a model in memory answered, and whether its export still answers that."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import NamedTuple

import numpy as np

from keras_transformer.export import replay
from keras_transformer.export.damage import no_tensorflow_text, refused
from keras_transformer.export.manifest import read_manifest

# Another CPU adds in another order.
_TOLERANCE = 1e-4


class GoldenRow(NamedTuple):
    """A golden pair and what came of it.

    Attributes:
        signature: that was called.
        input: its inputs, a dictionary of nested lists by name.
        expected: what the model in memory answered, a dictionary like it.
        got: what the export answered, or {"error": message}.
        ok: whether they agree: texts and integers exactly, other numbers to 0.0001.
    """

    signature: str
    input: dict
    expected: dict
    got: dict
    ok: bool

    @property
    def difference(self):
        """The first output that differs, what was expected and what came; None if they agree."""
        if "error" in self.got and "error" not in self.expected:
            return "error", None, self.got["error"]
        for name, expected in self.expected.items():
            if not _agree(expected, self.got.get(name)):
                return name, *_first_difference(expected, self.got.get(name))
        return None


def make_golden_pair(signature, inputs, outputs):
    """Returns a golden pair for the manifest.

    Args:
        signature: its name.
        inputs: tensors or arrays by name, that it was called with.
        outputs: tensors or arrays by name, that the model in memory answered.

    >>> make_golden_pair("serving_default", {"text": np.array([b"a"])}, {"score": np.ones(1)})
    {'signature': 'serving_default', 'inputs': {'text': ['a']}, 'outputs': {'score': [1.0]}}
    """
    return {
        "signature": signature,
        "inputs": {name: replay.to_json(np.asarray(value)) for name, value in inputs.items()},
        "outputs": {name: replay.to_json(np.asarray(value)) for name, value in outputs.items()},
    }


def replay_golden_pairs(directory):
    """Runs every golden pair of an export in a clean process, and compares.

    The process imports TensorFlow and, if the manifest says that the graph needs its ops,
    tensorflow_text; nothing else. What the graph does, it does: check the ops first.

    Args:
        directory: of the export.

    Returns:
        A list of `GoldenRow`, in the manifest's order.
    """
    directory = pathlib.Path(directory).absolute()
    golden = read_manifest(directory)["golden"]
    # Isolated: neither PYTHONPATH nor the current directory can slip a module in. What comes from
    # there in this process, such as TensorFlow on a cluster, comes after all else.
    process = subprocess.run(
        [sys.executable, "-I", replay.__file__, str(directory), *_places_of_libraries()],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    last_line = _last_line(process.stderr)
    if process.returncode == replay.NO_TENSORFLOW_TEXT:
        raise no_tensorflow_text(directory, last_line)
    if process.returncode:
        raise refused(directory, _not_loadable(process.returncode, last_line))
    try:
        answers = [json.loads(line) for line in process.stdout.splitlines()]
    except ValueError as error:
        raise refused(directory, _not_loadable(0, "its process printed no JSON")) from error
    if len(answers) != len(golden):
        answered = f"its process ended after {len(answers)} of {len(golden)} golden pairs"
        raise refused(directory, _not_loadable(0, answered))
    return [_compared(pair, answer) for pair, answer in zip(golden, answers, strict=True)]


def _places_of_libraries():
    """The directories from which this process has what a replay needs."""
    specs = map(importlib.util.find_spec, ("numpy", "tensorflow", "tensorflow_text"))
    places = [str(pathlib.Path(spec.origin).parents[1]) for spec in specs if spec is not None]
    return list(dict.fromkeys(places))


def _compared(pair, answer):
    got = answer.get("outputs", answer)
    ok = "outputs" in answer and all(
        name in got and _agree(expected, got[name]) for name, expected in pair["outputs"].items()
    )
    return GoldenRow(pair["signature"], pair["inputs"], pair["outputs"], got, ok)


def _agree(expected, got):
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(_agree, expected, got))
    if isinstance(expected, float) and isinstance(got, float):
        return abs(expected - got) <= _TOLERANCE * (1 + abs(expected))
    return type(expected) is type(got) and expected == got


def _first_difference(expected, got):
    """Returns the innermost values that differ: what was expected, and what came."""
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for one, other in zip(expected, got, strict=True):
            if not _agree(one, other):
                return _first_difference(one, other)
    return expected, got


def _not_loadable(code, why):
    ending = f", ended by {signal.Signals(-code).name}" if code < 0 else ""
    if "Op type not registered" in why:
        why += "; is it of tensorflow_text? Then import tensorflow_text before you load the model"
    return f"damaged or not loadable{ending}: {why}. Copy the directory again, or export again."


def _last_line(stderr):
    """Returns the last line that is no chatter of TensorFlow's start."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    chatter = ("WARNING: All log messages before", "I0000", "W0000")
    lines = [line for line in lines if line and not line.startswith(chatter)]
    return lines[-1] if lines else "it said nothing"
