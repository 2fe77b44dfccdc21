"""One running server for the tests that change nothing, and exports for those that do."""

import shutil

import pytest

from keras_transformer.serving import find_models
from tests.export.small_export import write_small_export
from tests.serving.running import RunningServer


@pytest.fixture(scope="session")
def written_export(tmp_path_factory):
    """Version 1 of the small export, which answers with upper-case texts; never changed."""
    return write_small_export(tmp_path_factory.mktemp("served") / "small" / "1")


@pytest.fixture
def models(written_export, tmp_path):
    """A directory with a copy of the export: <tmp_path>/models/small/1."""
    shutil.copytree(written_export, tmp_path / "models" / "small" / "1")
    return tmp_path / "models"


@pytest.fixture(scope="package")
def server(written_export):
    """A server of the small export, with limits that tests can reach."""
    with RunningServer(find_models(written_export.parent), workers=2) as running:
        yield running
