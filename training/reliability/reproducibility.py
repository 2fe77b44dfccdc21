"""Trains the same recipe twice, in new processes, and compares the files of both runs and exports.

  python -m training.reliability.reproducibility
  python -m training.reliability.reproducibility --steps 200 --directory compared

Prints a row for each file: the same bytes, the same content, or different. Files with the same
content hold equal values but differ in bytes for a reason that the last column gives. The exit code
is 1 if any content differs. To compare two machines, run it on each with --directory, and compare
the column of sha256 values.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from keras_transformer.trainer.recipe_file import write_yaml
from training.reliability.kill_nine import RECIPE, read_events, read_weights, write_recipe

Reader = Callable[[pathlib.Path], Any]


class Row(NamedTuple):
    """A file of both runs, and how it compares."""

    name: str
    sha256: str
    verdict: str
    reason: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40, help="training steps (default: 40)")
    parser.add_argument("--directory", help="directory for both runs (default: none is kept)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="reproducibility_") as temporary:
        directory = pathlib.Path(options.directory or temporary)
        directory.mkdir(parents=True, exist_ok=True)
        recipe = make_recipe(directory, options.steps)
        runs = [train(recipe, directory / name) for name in ("one", "other")]
        rows = list(compare(*runs))
    print(f"{'file':58}{'sha256':14}{'':14}why bytes differ")
    for row in rows:
        # The name of a cache is a hash of 64 digits.
        name = re.sub("[0-9a-f]{64}", lambda found: found[0][:8], row.name)
        print(f"{name:58}{row.sha256[:12]:14}{row.verdict:14}{row.reason}".rstrip())
    return 1 if any(row.verdict == "different" for row in rows) else 0


def make_recipe(directory: pathlib.Path, steps: int) -> pathlib.Path:
    """Writes the corpora and a recipe with an export; returns its path."""
    path = write_recipe(directory, 0)
    data = {part: str(directory / f"{part}.tsv") for part in ("train", "validation")}
    recipe = {
        **RECIPE,
        "data": data,
        "training": {**RECIPE["training"], "steps": steps},
        "evaluation": {"every": 20, "sentences": 8, "search": {"beams": 2, "max_length": 16}},
        "export": {"enabled": True},
    }
    path.write_text(write_yaml(recipe))
    return path


def train(recipe: pathlib.Path, run: pathlib.Path) -> pathlib.Path:
    """Trains in a new process; returns the run directory."""
    command = [sys.executable, "-m", "keras_transformer", "train", str(recipe), "--run", str(run)]
    environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "PYTHONHASHSEED": "random"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The training failed:\n{done.stderr}")
    return run


def compare(one: pathlib.Path, other: pathlib.Path) -> Iterator[Row]:
    """Yields a row for each file of the runs, and of their exports."""
    names = [sorted(map(str, files_of(run))) for run in (one, other)]
    if names[0] != names[1]:
        missing = sorted(set(names[0]) ^ set(names[1]))
        yield Row(", ".join(missing), "", "different", "only in one of them")
    for name in sorted(set(names[0]) & set(names[1])):
        contents = [(run / name).read_bytes() for run in (one, other)]
        digest = hashlib.sha256(contents[0]).hexdigest()
        if contents[0] == contents[1]:
            yield Row(name, digest, "same bytes", "")
            continue
        read, reason = reader_of(name)
        same = read is not None and read(one / name) == read(other / name)
        yield Row(name, digest, "same content" if same else "different", reason if same else "")
    for part in ("train", "validation"):
        name = f"tensorboard/{part}"
        same = read_events(one / name) == read_events(other / name)
        why = "times, and tokens per second"
        yield Row(name, "", "same content" if same else "different", why if same else "")


def files_of(run: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the files of a run without event files and locks."""
    for path in run.rglob("*"):
        name = path.relative_to(run)
        is_lock = name.suffix == ".lock" or name.name == ".lock"
        if path.is_file() and name.parts[0] != "tensorboard" and not is_lock:
            yield name


def reader_of(name: str) -> tuple[Reader | None, str]:
    """Returns a function that reads what must be equal in a file, and why its bytes differ."""
    if name == "model/model.weights.h5":
        return read_weights, "places of the arrays in the file"
    if name.startswith("export/"):
        return None, ""
    return _READERS.get(name.rpartition("/")[2], (None, ""))


def _read_result(path: pathlib.Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    clock = ("seconds", "tokens_per_second", "planned_seconds")
    places = ("run_directory", "tensorboard", "export")
    return {name: value for name, value in found.items() if name not in (*clock, *places)}


def _read_checkpoint(path: pathlib.Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))["content"]
    state = {name: value for name, value in content["state"].items() if name != "logs"}
    state["training"] = {**state["training"], "seconds": None}
    return {**content, "state": state}


def _read_manifest(path: pathlib.Path) -> dict[str, Any]:
    files = json.loads(path.read_text(encoding="utf-8"))["files"]
    return {name: entry for name, entry in files.items() if name != "result.json"}


# Readers of what is equal, and why bytes differ, by the name of a file of a run. All files of an
# export must have the same bytes.
_READERS: dict[str, tuple[Reader, str]] = {
    "result.json": (_read_result, "times, and places of the run"),
    "checkpoint.json": (_read_checkpoint, "times, and names of event files"),
    "manifest.json": (_read_manifest, "the sha256 of result.json"),
}


if __name__ == "__main__":
    sys.exit(main())
