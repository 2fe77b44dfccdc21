"""Expensive fixtures: the small export, copies of it to damage, and signatures in memory."""

import shutil

import pytest

from keras_transformer.export import TrainedModel
from keras_transformer.export.modules import make_text_module
from tests import phrases
from tests.export.small_export import write_small_export


@pytest.fixture(scope="session")
def written_export(tmp_path_factory):
    """The small export; tests must not change it."""
    return write_small_export(tmp_path_factory.mktemp("exports") / "small" / "1")


@pytest.fixture(scope="session")
def other_export(tmp_path_factory):
    """The same graph with a vocabulary of another size."""
    return write_small_export(tmp_path_factory.mktemp("exports") / "other" / "1", rows=9)


@pytest.fixture
def export(written_export, tmp_path):
    """A copy of the small export that a test may damage: <tmp_path>/small/1."""
    return shutil.copytree(written_export, tmp_path / "small" / "1")


@pytest.fixture(scope="session")
def functions(phrases_run):
    """The signatures of the model that translates phrases, in memory."""
    trained = TrainedModel.load(phrases_run)
    return make_text_module(trained, phrases.SEARCH, phrases.LIMITS).functions
