"""Checks the structure of an export, and prints a verdict: python inspector.py DIRECTORY

The script runs in its own sandboxed process. No other code reads the structure of an unchecked
export: protocol buffers, the index of the weights, models of tokenizers. The verdict is a line of
JSON, {"findings": …} or {"refused": …}.

The script imports modules of this package and the protocol buffers of TensorFlow, but no package's
`__init__`: it takes a fraction of a second, and TensorFlow does not start.
"""

import json
import pathlib
import sys
import types
from importlib.machinery import PathFinder
from typing import Any

_PACKAGE = "keras_transformer"
# Packages whose modules are imported without the package's own `__init__`.
_BARE = {
    _PACKAGE: ("export", "text", "_utils"),
    "tensorflow": (),
    "tensorflow_text": ("core", "core.pybinds"),
}


def main(directory: str) -> int:
    """Prints the verdict about an export, and returns the exit code."""
    make_bare_packages()
    print(json.dumps(check(pathlib.Path(directory))))
    return 0


def make_bare_packages() -> None:
    """Makes modules of packages importable one by one, without the packages' `__init__`."""
    here = str(pathlib.Path(__file__).resolve().parents[2])
    for package, folders in _BARE.items():
        spec = PathFinder.find_spec(package, [here] if package == _PACKAGE else None)
        if spec is None or not spec.submodule_search_locations:
            continue  # tensorflow_text is missing: the replay reports it if it is needed
        root = pathlib.Path(next(iter(spec.submodule_search_locations)))
        for folder in ("", *folders):
            module: Any = types.ModuleType(f"{package}.{folder}".rstrip("."))
            module.__path__ = [str(root.joinpath(*folder.split(".")))]
            sys.modules[module.__name__] = module


def check(directory: pathlib.Path) -> dict[str, Any]:
    """Returns the verdict about the structure of an export.

    Args:
        directory: directory of the export.
    """
    from keras_transformer._utils.errors import UserError

    try:
        return {"findings": find(directory)}
    except UserError as error:
        return {"refused": {"problem": error.problem, "where": error.where, "fix": error.fix}}


def find(directory: pathlib.Path) -> dict[str, Any]:
    """Returns what the checks find; a `UserError` reports the first problem.

    Args:
        directory: directory of the export.
    """
    from keras_transformer.export.allowed_ops import check_ops
    from keras_transformer.export.entry_points import check_entry_points
    from keras_transformer.export.graph import signatures_of
    from keras_transformer.export.saved_model_file import check_variables, read_meta_graph
    from keras_transformer.export.tokenizer_models import check_tokenizer_models

    meta_graph = read_meta_graph(directory)
    ops = check_ops(directory, meta_graph)
    check_entry_points(directory, meta_graph)
    check_tokenizer_models(directory, meta_graph)
    variables, parameters = check_variables(directory, meta_graph)
    return {
        "functions": len(meta_graph.graph_def.library.function),
        "tensorflow_version": meta_graph.meta_info_def.tensorflow_version,
        "ops": len(ops.ops),
        "outside_core": ops.outside_core,
        "signatures": signatures_of(meta_graph),
        "variables": variables,
        "parameters": parameters,
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
