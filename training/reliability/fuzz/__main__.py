"""Fuzzes the parsers of untrusted bytes with coverage as a guide.

  pip install -e '.[fuzz]'
  python -m training.reliability.fuzz --runs 1000000 --seconds 3600
  python -m training.reliability.fuzz recipe conllu --directory findings

Every input must be read or refused by a `UserError` whose message is one line of plain text. Other
errors, signals, executions of more than ten seconds and too much memory are findings: their inputs
are kept in the directory, with a traceback beside each. The exit code is 1 if there are findings.
With --directory, a second call continues the first.
"""

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from training.reliability.fuzz.fuzzing import FuzzResult, fuzz
from training.reliability.fuzz.targets import TARGETS


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m training.reliability.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = ", ".join(TARGETS)
    add("targets", nargs="*", metavar="TARGET", help=f"{names} (default: all)")
    add("--runs", type=int, default=1_000_000, help="executions of each target (default: 1000000)")
    add("--seconds", type=float, default=3600, help="maximum time of each target (default: 3600)")
    add("--directory", help="directory for findings (default: kept only if there are some)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.targets) - set(TARGETS))
    if unknown:
        parser.error(f"no target {unknown[0]!r}; known are {names}")
    directory = pathlib.Path(options.directory or tempfile.mkdtemp(prefix="fuzz_"))
    print(f"{'target':15}{'executions':>12}{'accepted':>12}{'findings':>10}{'crashes':>9}{'s':>7}")
    results = []
    for name in options.targets or TARGETS:
        results.append(fuzz(name, directory, options.runs, options.seconds))
        print(row_of(results[-1]), flush=True)
    for path in [path for result in results for path in (*result.findings, *result.crashes)]:
        print(f"FOUND: {path}")
    return 0 if all(result.is_clean for result in results) else 1


def row_of(result: FuzzResult) -> str:
    """Returns a row of the table."""
    return (
        f"{result.target:15}{result.executions:>12,}{result.accepted:>12,}"
        f"{len(result.findings):>10}{len(result.crashes):>9}{result.seconds:>7.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
