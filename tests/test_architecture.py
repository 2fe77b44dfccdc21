"""The shape of the code base: imports go one way, and every file is reachable."""

import ast
import pathlib

import pytest

import keras_transformer

ROOT = pathlib.Path(keras_transformer.__file__).parent

# Each may import itself and what stands before it: the way of the data, left to right.
ORDER = [
    {"_utils"},
    {"text"},
    {"data"},
    {"layers"},
    {"models"},
    {"losses", "schedules"},
    {"metrics"},
    {"decoding"},
    {"export"},
    {"inference"},
    {"trainer"},
    {"analysis"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def part_of(path):
    """The folder or module right below the package."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_parts(path):
    """Parts of the package that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "keras_transformer":
            names = [f"keras_transformer.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "keras_transformer" and rest:
                yield rest.split(".")[0]


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    part = part_of(path)
    assert part in RANK, f"Say in ORDER where {part} stands on the way of the data."
    later = {name for name in imported_parts(path) if RANK[name] > RANK[part]}
    assert not later, f"{path.relative_to(ROOT)} imports {later}, which come after {part}."
    same_step = {name for name in imported_parts(path) if RANK[name] == RANK[part]} - {part}
    assert not same_step or RANK[part] == 0


def test_public_names_are_all_there():
    for name in keras_transformer.__all__:
        assert getattr(keras_transformer, name) is not None
