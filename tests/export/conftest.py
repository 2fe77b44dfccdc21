"""The small export, written once; tests get copies that they may damage."""

import shutil

import pytest

from tests.export.small_export import write_small_export


@pytest.fixture(scope="session")
def written_export(tmp_path_factory):
    """Nobody changes this one."""
    return write_small_export(tmp_path_factory.mktemp("exports") / "small" / "1")


@pytest.fixture(scope="session")
def other_export(tmp_path_factory):
    """The same graph but for a vocabulary of another size."""
    return write_small_export(tmp_path_factory.mktemp("exports") / "other" / "1", rows=9)


@pytest.fixture
def export(written_export, tmp_path):
    """A copy to damage: <tmp_path>/small/1."""
    return shutil.copytree(written_export, tmp_path / "small" / "1")
