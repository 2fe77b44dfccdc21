"""A folder that looks like the peers', whose interpreters are shell scripts."""

import json
import stat

from tests.bench.small_workload import write_short_sentences

# Prints a row with what it was given. HF Marian is twice as fast in its second round.
_ANSWERS = """#!/bin/sh
echo "some library's words"
echo "{not json"
value=100
case $1 in
  train_hf.py)
    value=50
    if [ -e seen ]; then value=100; fi
    touch seen;;
  gemm.py) value=123;;
esac
echo '{"peer": "'$1'", "task": "train", "config": "tiny", "batch": "4096tok",' \\
  '"metric": "m", "value": '$value', "spread": ['$value'], "gflops": 25.0, "mfu": 0.9,' \\
  '"peak_rss_mb": 77, "arguments": "'$*'", "variables":' \\
  '"'$THREADS $TF_NUM_INTRAOP_THREADS $PEER_FORCE $TF_ENABLE_ONEDNN_OPTS [$PEER_RESULTS]'"}'
"""
_FAILS = """#!/bin/sh
echo '{"value": 1}'
echo 'Traceback of something' >&2
echo 'ImportError: no such module' >&2
exit 3
"""


def make_peers(directory):
    """vt and vk answer, vo fails, vj is not there."""
    write_short_sentences(directory / "data")
    (directory / "common.py").write_text("")
    for name, content in (("vt", _ANSWERS), ("vk", _ANSWERS), ("vo", _FAILS)):
        python = directory / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(content)
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return directory


def our_row(value, **more):
    """A row such as our own measurement gives."""
    row = {"peer": "ours", "task": "train", "config": "tiny", "batch": "4096tok", "metric": "m"}
    return {**row, "value": value, "spread": [value], "peak_rss_mb": 9, **more}


class FakeMeasure:
    """Stands in for `Processes.measure`, so that no process is started; remembers what was asked.

    Args:
        values: of the rows, again and again.
    """

    def __init__(self, *values):
        self.values = values
        self.asked = []

    def __call__(self, what, environment=None, **settings):
        self.asked.append((what, environment, settings))
        json.dumps(settings)  # they are passed on as JSON
        return our_row(self.values[(len(self.asked) - 1) % len(self.values)])
