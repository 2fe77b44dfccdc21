"""Fixtures of the tests of whole trainings."""

import pytest


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """The recipe's `data`: a few hundred phrases."""
    from tests.trainer.small_runs import write_corpora

    return write_corpora(tmp_path_factory.mktemp("corpora"))


@pytest.fixture
def trainings():
    """Trains in this process, with interruptions; see `Trainings`."""
    from tests.trainer.small_runs import Trainings

    return Trainings()
