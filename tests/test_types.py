"""Public types of the package, as a type checker of a user's project sees them."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
CHECKER = pathlib.Path(sys.executable).with_name("basedpyright")

pytestmark = pytest.mark.skipif(not CHECKER.exists(), reason="the extra [lint] is not installed")


def check(*arguments, folder):
    """Returns the report of the type checker, run in a folder."""
    command = [str(CHECKER), "--pythonpath", sys.executable, "--outputjson", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return json.loads(result.stdout)


def test_public_names_of_package_have_known_types(tmp_path):
    report = check("--verifytypes", "keras_transformer", "--ignoreexternal", folder=tmp_path)
    assert report["typeCompleteness"]["completenessScore"] >= 0.95


def test_script_with_the_most_used_functions_has_no_unknown_types():
    report = check("tests/typing/user_script.py", folder=ROOT)
    assert report["summary"]["filesAnalyzed"] == 1
    assert report["generalDiagnostics"] == []
