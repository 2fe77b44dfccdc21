"""What the tests of whole trainings share."""

import pytest


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """The recipe's `data`: a few hundred phrases."""
    from tests.trainer.small_runs import write_corpora

    return write_corpora(tmp_path_factory.mktemp("corpora"))


@pytest.fixture
def trainings(monkeypatch):
    """Trains in this process, with stops; see `Trainings`."""
    from tests.trainer.small_runs import Trainings

    return Trainings(monkeypatch)
