"""A small recipe, and the mistakes of `load_recipe` when something in it is changed."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.recipes import load_recipe

SMALL = """\
name: small
task: translation
data:
  builtin: dates
model:
  size: tiny
training:
  steps: 10
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Returns a function that writes `recipe.yaml` into a new current directory."""
    monkeypatch.chdir(tmp_path)

    def write(text=SMALL):
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "recipe.yaml").write_bytes(content)
        return "recipe.yaml"

    return write


@pytest.fixture
def load_error(write):
    """Returns a function that loads a text, or overrides of the small recipe; returns the error."""

    def load_error(text=SMALL, overrides=()):
        with pytest.raises(UserError) as caught:
            load_recipe(write(text), overrides)
        return caught.value

    return load_error
