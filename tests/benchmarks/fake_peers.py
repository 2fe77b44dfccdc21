"""A directory like the one of the peers' setup.sh, whose interpreters are shell scripts."""

import json
import pathlib
import stat
from typing import Any

from tests.benchmarks.small_workload import write_short_sentences

# Prints a row with the arguments and variables. HF Marian is twice as fast in its second round.
_ANSWERS = """#!/bin/sh
echo "a message of a library"
echo "{not json"
script=$(basename $1)
shift
value=100
case $script in
  train_hf.py)
    value=50
    if [ -e "$PEERS/seen" ]; then value=100; fi
    touch "$PEERS/seen";;
  matrix_products.py) value=123;;
esac
echo '{"peer": "'$script'", "task": "train", "config": "tiny", "batch": "4096tok",' \\
  '"metric": "m", "value": '$value', "spread": ['$value'], "gflops": 25.0, "mfu": 0.9,' \\
  '"peak_rss_mb": 77, "arguments": "'$script $*'", "variables":' \\
  '"'$THREADS $TF_NUM_INTRAOP_THREADS $FORCED_LENGTH $TF_ENABLE_ONEDNN_OPTS'"}'
"""
_FAILS = """#!/bin/sh
echo '{"value": 1}'
echo 'Traceback of something' >&2
echo 'ImportError: no such module' >&2
exit 3
"""


def make_peers(directory: pathlib.Path) -> pathlib.Path:
    """Makes a directory in which `opennmt` fails and `joeynmt` is missing."""
    write_short_sentences(directory / "data")
    for name, content in (("pytorch", _ANSWERS), ("keras", _ANSWERS), ("opennmt", _FAILS)):
        python = directory / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(content)
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return directory


def our_row(value: float, **more: Any) -> dict[str, Any]:
    """Returns a row like those of this package's measurements."""
    row = {"peer": "ours", "task": "train", "config": "tiny", "batch": "4096tok", "metric": "m"}
    return {**row, "value": value, "spread": [value], "peak_rss_mb": 9, **more}


class FakeMeasure:
    """Replacement for `Processes.measure` that starts no process and records its calls.

    Args:
        *values: values of the rows, repeated from the start.
    """

    def __init__(self, *values: float) -> None:
        self.values = values
        self.calls: list[tuple[str, Any, dict[str, Any]]] = []

    def __call__(self, name: str, environment: Any = None, **settings: Any) -> dict[str, Any]:
        self.calls.append((name, environment, settings))
        json.dumps(settings)  # they are passed on as JSON
        return our_row(self.values[(len(self.calls) - 1) % len(self.values)])
