"""Checks an export before you serve it: files, ops, signatures, weights, answers.

  keras-transformer verify saved_models/dates
  keras-transformer verify saved_models/dates/3 --json
  keras-transformer verify saved_models/dates --key release.pem.pub

Unless you name a version, the highest one is checked. The files must equal those of the manifest
(sha256), the graph must contain and initialize only what our exports contain, and a process that
imports only tensorflow and tensorflow_text must answer the golden pairs as the model in memory did.
Both are checked in sandboxed processes, with limits on memory and time and without access to other
files or the network; SECURITY.md describes the guarantees. The first problem is reported in one
line, with exit code 2.
"""

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keras_transformer.cli.shared import run_with_tensorflow

if TYPE_CHECKING:
    from keras_transformer.export import Verification

SUMMARY = "check an export: files, ops, signatures, weights, answers"

_LONGEST_CELL = 41


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="<name>/<version>, or <name>")
    key = "require that one of the public keys in FILE has signed the export; see `sign`"
    parser.add_argument("--key", metavar="FILE", help=key)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> None:
    run_with_tensorflow(verify, arguments)


def verify(arguments: argparse.Namespace) -> None:
    """Verifies an export and prints the result."""
    from keras_transformer._utils.console import print_rendered
    from keras_transformer.export import verify_export

    verification = verify_export(arguments.directory, arguments.key)
    if arguments.json:
        print(as_json(verification))
    else:
        print_rendered(lambda console: draw_verification(console, verification))


def as_json(verification: "Verification") -> str:
    """Returns a verification as JSON: the checks, and the most important part of the manifest."""
    manifest = verification.manifest
    content = {
        "directory": str(verification.directory),
        **{name: manifest[name] for name in ("name", "version", "kind")},
        "checks": [check._asdict() for check in verification.checks],
        "bytes": verification.total_bytes,
        "created_with": manifest["created_with"],
        "ops_outside_core": manifest["ops"]["outside_core"],
        "quality": manifest["quality"],
        "golden": [row._asdict() for row in verification.golden],
    }
    return json.dumps(content, indent=2)


def draw_verification(console: Any, verification: "Verification") -> None:
    """Prints a verification as tables on a rich console."""
    from keras_transformer._utils.console import print_table, shown
    from keras_transformer.export.signatures import described_tensors
    from keras_transformer.trainer.section import leaves

    manifest = verification.manifest
    checks = [(check.name, "ok", check.detail) for check in verification.checks]
    title = f"{manifest['kind']} {manifest['name']}, version {manifest['version']}"
    print_table(console, ("check", "", "found"), checks, title=title)
    console.print()
    signatures = [
        (each.name, described_tensors(each.inputs, ""), described_tensors(each.outputs, ""))
        for each in verification.signatures
    ]
    print_table(console, ("signature", "inputs", "outputs"), signatures, title="Signatures")
    console.print()
    if manifest["quality"]:
        metrics = [
            (name.replace(".", " "), str(value)) for name, value in leaves(manifest["quality"])
        ]
        print_table(console, ("metric", "value"), metrics, title="Quality when it was exported")
        console.print()
    pairs = [(row.signature, brief(row.input), brief(row.got)) for row in verification.golden]
    print_table(console, ("signature", "input", "answer"), pairs, title="Golden pairs")
    console.print()
    result = f"All checks passed: {shown(str(verification.directory))}"
    console.print(result, soft_wrap=True, markup=False, highlight=False)


def brief(tensors: Mapping[str, Any]) -> str:
    """Returns a short description of tensors by name.

    >>> brief({"text": ["HELLO", "WORLD"], "score": [-0.5, -1.2345678]})
    "text ['HELLO', 'WORLD'], score [-0.5, -1.235]"
    """
    from keras_transformer.data.corpora.file_corpus import shorten

    texts = {name: str(rounded(value)) for name, value in tensors.items()}
    return ", ".join(f"{name} {shorten(text, _LONGEST_CELL)}" for name, text in texts.items())


def rounded(value: Any) -> Any:
    """Returns nested lists with four significant digits of every number."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
