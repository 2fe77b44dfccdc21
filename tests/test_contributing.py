"""The example in CONTRIBUTING.md is a mechanism that passes the contract tests."""

import pathlib
import re
import sys
import types

import keras
import pytest

from keras_transformer.layers import MECHANISMS
from tests.contracts import test_mechanisms as contract

ROOT = pathlib.Path(__file__).parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def name(monkeypatch):
    """Executes the two files of the example for one test; yields the name of the mechanism."""
    step = r"\*\*\d\. [^*]+\*\*, `([\w/]+\.py)`.*?```python\n(.*?)```"
    files = dict(re.findall(step, GUIDE, re.DOTALL))
    mechanism, reference = files
    registered, objects = dict(MECHANISMS), keras.saving.get_custom_objects()
    serializable = dict(objects)
    # Somebody may have added the files of the example.
    MECHANISMS.pop(pathlib.Path(mechanism).stem, None)
    known = set(MECHANISMS)
    for path, code in files.items():
        module = types.ModuleType(path.removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(code, path, "exec"), vars(module))
    (name,) = set(MECHANISMS) - known
    assert mechanism == f"keras_transformer/layers/attention/{name}.py"
    assert reference == f"tests/references/mechanisms/{name}.py"
    yield name
    for changed, before in ((MECHANISMS, registered), (objects, serializable)):
        changed.clear()
        changed.update(before)


def test_example_mechanism_passes_the_contract_tests(name, random):
    for use_causal_mask in (False, True):
        contract.test_values_equal_the_numpy_reference(name, use_causal_mask, 3, random)
    contract.test_multi_head_attention_equals_the_numpy_reference(name, random)
    contract.test_causal_mask_hides_later_positions(name, "mixed_float16", True, 0.3, False, random)
    contract.test_cached_steps_equal_full_attention(name, 2, False, random)
    contract.test_other_precisions_are_close(name, "mixed_bfloat16", 0.06, random)
    contract.test_config_round_trip(name, random)


def test_commands_and_files_of_guide_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([\w-]+)", GUIDE):
        assert f"\n{target}:" in makefile
    for path in re.findall(r"`((?:keras_transformer|tests)/[\w/.]*)`", GUIDE):
        assert (ROOT / path).exists() or path.endswith("distance.py"), path
    _, _, declarations = GUIDE.partition("### What a mechanism can declare")
    for file in re.findall(r"\| `(\w+\.py)` \|", declarations):
        assert (ROOT / "keras_transformer/layers/attention" / file).exists(), file


def test_models_for_additions_exist():
    """Checks the files in the table "Where to add something"."""
    _, _, table = GUIDE.partition("## Where to add something")
    table, _, _ = table.partition("## Example")
    rows = re.findall(
        r"^\| .*`(keras_transformer/[\w/]+/)`.*\| `([\w/]+\.py)` \|$", table, re.MULTILINE
    )
    assert len(rows) > 10
    for folder, file in rows:
        assert (ROOT / folder / file).exists(), (folder, file)
