"""Checks an export before you serve it: files, ops, signatures, weights, answers.

  keras-transformer verify saved_models/dates
  keras-transformer verify saved_models/dates/3 --json

Unless you name a version, the highest one is checked. The files must equal those of the manifest
(sha256), the operations must be on a list of those that access no files and no network, and a
process that imports only tensorflow and tensorflow_text must give the same answers to the golden
pairs as the model in memory gave. The first problem is reported in one line, with exit code 2.
"""

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keras_transformer.cli.text_input import run_with_tensorflow

if TYPE_CHECKING:
    from keras_transformer.export import Verification

SUMMARY = "check an export: files, ops, signatures, weights, answers"

_LONGEST_CELL = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="<name>/<version>, or <name>")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> None:
    run_with_tensorflow(verify, arguments)


def verify(arguments: argparse.Namespace) -> None:
    """Verifies an export and prints the result."""
    from keras_transformer._utils.console import print_rendered
    from keras_transformer.export import verify_export

    verification = verify_export(arguments.directory)
    if arguments.json:
        print(as_json(verification))
    else:
        print_rendered(lambda console: draw_verification(console, verification))


def as_json(verification: "Verification") -> str:
    """Returns a verification as JSON: the checks, and the most important part of the manifest."""
    manifest = verification.manifest
    return json.dumps(
        {
            "directory": str(verification.directory),
            "name": manifest["name"],
            "version": manifest["version"],
            "kind": manifest["kind"],
            "checks": [check._asdict() for check in verification.checks],
            "bytes": verification.total_bytes,
            "created_with": manifest["created_with"],
            "ops_outside_core": manifest["ops"]["outside_core"],
            "quality": manifest["quality"],
            "golden": [row._asdict() for row in verification.golden],
        },
        indent=2,
    )


def draw_verification(console: Any, verification: "Verification") -> None:
    """Prints a verification as tables on a rich console."""
    from keras_transformer._utils.console import print_table
    from keras_transformer.export.signatures import described_tensors

    manifest = verification.manifest
    print_table(
        console,
        ("check", "", "found"),
        [(check.name, "ok", check.detail) for check in verification.checks],
        title=f"{manifest['kind']} {manifest['name']}, version {manifest['version']}",
    )
    console.print()
    print_table(
        console,
        ("signature", "inputs", "outputs"),
        [
            (each.name, *(described_tensors(part, "") for part in (each.inputs, each.outputs)))
            for each in verification.signatures
        ],
        title="Signatures",
    )
    console.print()
    if manifest["quality"]:
        print_table(
            console,
            ("metric", "value"),
            flattened(manifest["quality"]),
            title="Quality when it was exported",
        )
        console.print()
    print_table(
        console,
        ("signature", "input", "answer"),
        [(row.signature, brief(row.input), brief(row.got)) for row in verification.golden],
        title="Golden pairs",
    )


def flattened(metrics: Any, path: str = "") -> list[tuple[str, str]]:
    """Returns name and value of all numbers and texts in nested dictionaries.

    >>> flattened({"bleu": 31.5, "test": {"chrf": 60}})
    [('bleu', '31.5'), ('test chrf', '60')]
    """
    if not isinstance(metrics, dict):
        return [(path, str(metrics))]
    names = ((f"{path} {name}".strip(), value) for name, value in metrics.items())
    return [row for name, value in names for row in flattened(value, name)]


def brief(tensors: Mapping[str, Any]) -> str:
    """Returns a short description of tensors by name.

    >>> brief({"text": ["HELLO", "WORLD"], "score": [-0.5, -1.2345678]})
    "text ['HELLO', 'WORLD'], score [-0.5, -1.235]"
    """
    texts = []
    for name, value in tensors.items():
        text = str(rounded(value))
        short = text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + "…"
        texts.append(f"{name} {short}")
    return ", ".join(texts)


def rounded(value: Any) -> Any:
    """Returns nested lists with four significant digits of every number."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
