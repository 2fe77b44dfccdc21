"""A short training whose logs all tests of this folder read, in all test processes."""

import pytest

from tests import phrases
from tests.trainer.tensorboard.watched_run import read_watched, train_watched


@pytest.fixture(scope="session")
def watched(tmp_path_factory, phrases_run):
    """A `WatchedRun`."""

    def make(path):
        unfinished = path.with_name("watched_unfinished")
        unfinished.mkdir()
        train_watched(phrases_run, unfinished)
        unfinished.rename(path)

    shared = phrases.shared_directory(tmp_path_factory)
    return read_watched(phrases.made_once(shared, "watched", make))
