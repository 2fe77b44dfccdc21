"""Structure of the package: import order, lazy imports and public names."""

import ast
import pathlib
import subprocess
import sys

import keras_transformer

ROOT = pathlib.Path(keras_transformer.__file__).parent

# A part may import itself and the parts before it.
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
    {"serving"},
    {"hub"},
    {"trainer"},
    {"analysis"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def part_of(path):
    """Returns the folder or module directly below the package."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_parts(path):
    """Yields the parts that a file imports, at the top level or inside functions."""
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
            part = rest.split(".")[0]
            if package == "keras_transformer" and not part.startswith("__"):
                yield part


def wrong_imports():
    """Yields a line for every import of a part that comes later, or of an equal rank."""
    for path in sorted(ROOT.rglob("*.py")):
        if path == ROOT / "__init__.py":
            continue
        part = part_of(path)
        for name in set(imported_parts(path)) - {"", part}:
            if RANK[name] >= RANK[part]:
                yield f"{path.relative_to(ROOT)} imports {name}"


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_imports_of_all_files_go_one_way():
    assert list(wrong_imports()) == []


def test_public_names_of_package_are_importable():
    for name in keras_transformer.__all__:
        assert getattr(keras_transformer, name) is not None


def test_unknown_name_of_package_raises_attribute_error():
    assert not hasattr(keras_transformer, "no_such_name")


def test_import_of_package_does_not_start_tensorflow():
    code = "import sys, keras_transformer; print('tensorflow' in sys.modules)"
    assert run_python(code) == "False"


def test_import_of_package_ignores_the_name_of_the_program():
    code = (
        "import sys; sys.argv = ['/usr/bin/keras-transformer']; import keras_transformer; "
        "print(keras_transformer.Transformer.__name__)"
    )
    assert run_python(code) == "Transformer"


def test_backend_other_than_tensorflow_is_refused():
    code = (
        "import keras; keras.backend.backend = lambda: 'jax'\n"
        "try:\n    import keras_transformer.layers\nexcept ImportError as error:\n    print(error)"
    )
    message = run_python(code)
    assert "jax" in message
    assert "KERAS_BACKEND=tensorflow" in message
