"""Fuzzes one target in this process: `python -m training.reliability.fuzz.worker TARGET DIRECTORY`.

The arguments after the directory are those of libFuzzer. The process ends when libFuzzer ends.
"""

import importlib
import os
import pathlib
import sys
import tempfile

from training.reliability.fuzz.findings import Recorder
from training.reliability.fuzz.targets import TARGETS

_MEMORY = "/dev/shm"


def main(name: str, directory: str, arguments: list[str]) -> None:
    """Fuzzes a target; findings and counts are written below the directory."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # An optional dependency: `pip install -e .[fuzz]`.
    atheris = importlib.import_module("atheris")
    target = TARGETS[name]
    recorder = Recorder(pathlib.Path(directory))
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz_", dir=place) as files:
        with atheris.instrument_imports(include=list(target.modules)):
            reader = target.make(pathlib.Path(files))
            for data in target.seeds():  # what is imported late is instrumented, too
                recorder.run(reader, data)

        def run(data: bytes) -> None:
            recorder.run(reader, data)

        atheris.Setup([sys.argv[0], *arguments], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
