"""A small recipe, and what is said about it when something in it is changed."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.recipes import load_recipe

SMALL = """\
name: small
task: translation
data:
  builtin: dates
model:
  preset: tiny
training:
  steps: 10
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes `recipe.yaml` into the current directory, which is a new one."""
    monkeypatch.chdir(tmp_path)

    def write(text=SMALL):
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "recipe.yaml").write_bytes(content)
        return "recipe.yaml"

    return write


@pytest.fixture
def refusal(write):
    """What `load_recipe` says about a text, or about overrides of the small recipe."""

    def refusal(text=SMALL, overrides=()):
        with pytest.raises(UserError) as caught:
            load_recipe(write(text), overrides)
        return str(caught.value)

    return refusal
