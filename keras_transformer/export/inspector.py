"""Checks an export and answers its golden pairs: python inspector.py DIRECTORY TASK

A script for a sandboxed process of its own. It alone reads the structure of an export that nobody
has checked yet: protobufs, the index of the weights, models of tokenizers. TASK is JSON:

- "check": None, or the contract for the checks: {"kind", "records", "version"}. Its verdict is the
  first line printed, {"findings": …} or {"refused": …}, before anything of the graph is loaded.
- "replay": whether to answer the golden pairs then, one line of JSON each.

The checks import their own modules of this package, but not the package with its layers and models,
and nothing of it remains for the replay, which loads the export as a server would.
"""

import json
import pathlib
import sys
import types
from typing import Any

_PACKAGE = "keras_transformer"


def main(directory: str, task: str) -> int:
    """Prints verdict and answers as JSON, and returns the exit code."""
    settings = json.loads(task)
    make_packages(settings["version"])
    from keras_transformer.export import replay

    if settings["check"] is not None:
        verdict = check(pathlib.Path(directory), **settings["check"])
        print(json.dumps(verdict), flush=True)
        if "refused" in verdict:
            return 0
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
        del sys.modules[name]
    return replay.main(directory) if settings["replay"] else 0


def make_packages(version: str) -> None:
    """Makes modules of the package importable one by one, without its `__init__` modules."""
    root = pathlib.Path(__file__).resolve().parents[1]
    for name in ("", "export", "_utils"):
        module: Any = types.ModuleType(f"{_PACKAGE}.{name}".rstrip("."))
        module.__path__ = [str(root / name)]
        module.__version__ = version
        sys.modules[module.__name__] = module


def check(directory: pathlib.Path, kind: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the verdict about the structure of an export.

    Args:
        directory: directory of the export.
        kind: class of the model.
        records: the signatures that this kind declares, from `described_records`.
    """
    from keras_transformer._utils.errors import UserError

    try:
        return {"findings": find(directory, kind, records)}
    except UserError as error:
        where, fix = error.where or str(directory), error.fix
        return {"refused": {"problem": error.problem, "where": where, "fix": fix}}


def find(directory: pathlib.Path, kind: str, records: Any) -> dict[str, Any]:
    """Returns what the checks find; a `UserError` reports the first problem."""
    from keras_transformer.export.allowed_ops import check_ops
    from keras_transformer.export.saved_model_file import check_variables, read_meta_graph
    from keras_transformer.export.signatures import check_signatures

    meta_graph = read_meta_graph(directory)
    ops = check_ops(directory, meta_graph)
    with open(directory / "assets.extra" / "manifest.json", encoding="utf-8") as file:
        listed = [pair["signature"] for pair in json.load(file)["golden"]]
    names = check_signatures(directory, meta_graph, kind, records, listed)
    variables, parameters = check_variables(directory, meta_graph)
    return {
        "functions": len(meta_graph.graph_def.library.function),
        "tensorflow_version": meta_graph.meta_info_def.tensorflow_version,
        "ops": len(ops.ops),
        "outside_core": ops.outside_core,
        "signatures": names,
        "variables": variables,
        "parameters": parameters,
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
