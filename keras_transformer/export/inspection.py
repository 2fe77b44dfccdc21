"""Reading and running of unchecked exports in sandboxed processes."""

import importlib.util
import json
import pathlib
import signal
from typing import NamedTuple

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.sandbox import SandboxResult, run_sandboxed
from keras_transformer.export import inspector
from keras_transformer.export.damage import COPY_AGAIN, refused
from keras_transformer.export.graph import SignatureFound

#: Limits of the process: enough for any export that fits, and an end for a hostile one.
SECONDS = 300.0
MEMORY_BYTES = 4 << 30
# More for large exports: seconds and memory for each byte of their files.
_SECONDS_PER_BYTE = 1e-7
_MEMORY_PER_BYTE = 4


class Findings(NamedTuple):
    """Findings of the checks of an export.

    Attributes:
        functions: number of functions in the graph.
        tensorflow_version: version of TensorFlow that wrote the graph.
        ops: number of different operations.
        outside_core: names of the operations of tensorflow-text.
        signatures: the signatures by name.
        variables: number of variables.
        parameters: number of parameters in them.
    """

    functions: int
    tensorflow_version: str
    ops: int
    outside_core: list[str]
    signatures: dict[str, SignatureFound]
    variables: int
    parameters: int


def inspect_export(directory: pathlib.Path) -> Findings:
    """Checks the structure of an export, and returns what was found.

    A sandboxed process reads the files. Nothing of the graph runs.

    Args:
        directory: directory of the export.

    Raises:
        UserError: for the first problem.
    """
    result = run_on_export(inspector.__file__, directory)
    try:
        verdict = json.loads(result.stdout)
    except ValueError:
        raise not_loadable(directory, result) from None
    if "refused" in verdict:
        problem = verdict["refused"]
        raise UserError(problem["problem"], where=problem["where"], fix=problem["fix"])
    findings = Findings(**verdict["findings"])
    signatures = {name: SignatureFound(*each) for name, each in findings.signatures.items()}
    return findings._replace(signatures=signatures)


def run_on_export(script: str, directory: pathlib.Path) -> SandboxResult:
    """Runs a script on an export, sandboxed, with limits that follow from the export's size.

    Args:
        script: path of the script, a module of this package.
        directory: directory of the export, the only argument of the script.
    """
    directory = directory.absolute()
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return run_sandboxed(
        script,
        [str(directory)],
        readable=[directory, pathlib.Path(script).parents[1]],
        library_directories=_library_directories(),
        seconds=SECONDS + size * _SECONDS_PER_BYTE,
        memory_bytes=MEMORY_BYTES + size * _MEMORY_PER_BYTE,
    )


def not_loadable(
    directory: pathlib.Path, result: SandboxResult, reason: str | None = None
) -> UserError:
    """Returns the `UserError` for an export whose process did not do what it should.

    Args:
        directory: directory of the export.
        result: how the process ended.
        reason: why its output is useless. Default: the last line of its standard error.
    """
    reason = last_line(result.stderr) if reason is None else reason
    if "Op type not registered" in reason:
        reason += "; an operation of tensorflow_text needs `import tensorflow_text` before loading"
    ending = ""
    if result.stopped == "time":
        ending, reason = ", stopped", "its time is over; an export that takes so long is not served"
    elif result.stopped == "output":
        ending, reason = ", stopped", "it prints without end"
    elif result.returncode < 0:
        ending = f", ended by {signal.Signals(-result.returncode).name}"
    return refused(directory, f"damaged or not loadable{ending}: {reason}.", COPY_AGAIN)


def last_line(stderr: bytes) -> str:
    """Returns the last line that is not one of TensorFlow's start-up messages."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    ignored = ("WARNING: All log messages before", "I0000", "W0000")
    lines = [line for line in lines if line and not line.startswith(ignored)]
    return lines[-1] if lines else "it printed nothing"


def _library_directories() -> list[str]:
    """Returns the directories from which this process has the libraries of a replay."""
    names = ("numpy", "google.protobuf", "sentencepiece", "tensorflow", "tensorflow_text")
    specs = map(importlib.util.find_spec, names)
    origins = [
        (spec.name.count(".") + 1, spec.origin)
        for spec in specs
        if spec is not None and spec.origin is not None
    ]
    return list(dict.fromkeys(str(pathlib.Path(each).parents[depth]) for depth, each in origins))
