"""Checks an export before you serve it: files, ops, signatures, weights, answers.

  keras-transformer verify saved_models/dates
  keras-transformer verify saved_models/dates/3 --json

The highest version is taken unless you name one. Files must be those of the manifest (sha256), ops
must be on a list of those that reach no files and no network, and the golden pairs must be answered
as the model in memory answered them, in a process that imports tensorflow and tensorflow_text only.
The first thing that is wrong is told in one line, with exit code 2.
"""

import json
import sys

SUMMARY = "check an export: files, ops, signatures, weights, answers"


def add_arguments(parser):
    parser.add_argument("directory", metavar="DIR", help="<name>/<version>, or <name>")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments):
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    from keras_transformer.export.verification import verify_export

    verification = verify_export(arguments.directory)
    # A terminal of another encoding gets question marks for what it cannot show.
    sys.stdout.reconfigure(errors="replace")
    print(as_json(verification) if arguments.json else as_text(verification))


def as_json(verification):
    """Returns a verification as JSON: what was checked, and what the manifest says."""
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


def as_text(verification):
    """Returns a verification as a person reads it: ruled tables on a terminal, else columns."""
    from rich.console import Console

    manifest = verification.manifest
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    # Printed in one piece by Python itself: at a closed pipe, rich would end the process with 1.
    with console.capture() as capture:
        print_table(
            console,
            f"{manifest['kind']} {manifest['name']}, version {manifest['version']}",
            ("check", "", "found"),
            [(check.name, "ok", check.detail) for check in verification.checks],
        )
        if manifest["quality"]:
            print_table(
                console,
                "Quality when it was exported",
                ("measure", "value"),
                flattened(manifest["quality"]),
            )
        print_table(
            console,
            "Golden pairs",
            ("signature", "input", "answer"),
            [(row.signature, brief(row.input), brief(row.got)) for row in verification.golden],
        )
    return capture.get().rstrip("\n")


def print_table(console, title, headings, rows):
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from keras_transformer._utils.console import shown

    is_plain = not console.is_terminal or console.is_dumb_terminal
    table = Table(box=None if is_plain else box.ROUNDED, pad_edge=not is_plain)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    console.print(Text(shown(title), style="bold"))
    console.print(table)
    console.print()


def flattened(measures, path=""):
    """Returns name and value of all numbers and texts in nested dictionaries.

    >>> flattened({"bleu": 31.5, "test": {"chrf": 60}})
    [('bleu', '31.5'), ('test chrf', '60')]
    """
    if not isinstance(measures, dict):
        return [(path, str(measures))]
    names = ((f"{path} {name}".strip(), value) for name, value in measures.items())
    return [row for name, value in names for row in flattened(value, name)]


def brief(tensors):
    """Returns tensors by name in a few words.

    >>> brief({"text": ["HELLO", "WORLD"], "score": [-0.5, -1.2345678]})
    "text ['HELLO', 'WORLD'], score [-0.5, -1.235]"
    """
    texts = []
    for name, value in tensors.items():
        text = str(rounded(value))
        texts.append(f"{name} {text if len(text) <= 40 else text[:40] + '…'}")
    return ", ".join(texts)


def rounded(value):
    """Returns nested lists with four digits of every number."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
