"""Set before TensorFlow starts: quiet, and one thread for each of pytest's parallel workers."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import hypothesis
import keras
import numpy as np
import pytest

# Property tests are never judged by the clock, and draw the same examples every time.
hypothesis.settings.register_profile("keras_transformer", deadline=None, derandomize=True)
hypothesis.settings.load_profile("keras_transformer")


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(7)


@pytest.fixture
def random():
    """A NumPy generator that starts anew in every test."""
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def phrases_run(tmp_path_factory):
    """The directory of a trained model that translates phrases; see tests/phrases.py."""
    from tests import phrases

    directory = phrases.shared_directory(tmp_path_factory)
    return phrases.made_once(directory, "phrases_run", lambda path: phrases.train().save(path))


@pytest.fixture(scope="session")
def phrases_export(tmp_path_factory, phrases_run):
    """The directory of all versions of its export, of which there is one."""
    from tests import phrases

    directory = phrases.shared_directory(tmp_path_factory)
    return phrases.made_once(
        directory, "phrases", lambda path: phrases.export_phrases(phrases_run, path)
    )


@pytest.fixture(scope="session")
def bytes_export(tmp_path_factory):
    """The directory of a portable export, version 7, with weights of half the size."""
    from keras_transformer.export import export_model
    from tests import phrases

    def make(path):
        export_model(phrases.make_bytes_model(), path, version=7, weights="bfloat16", portable=True)

    return phrases.made_once(phrases.shared_directory(tmp_path_factory), "bytes", make)


@pytest.fixture
def bytes_run(tmp_path):
    """The directory of a trained model over bytes that knows nothing."""
    from tests import phrases

    phrases.make_bytes_model().save(tmp_path / "bytes_run")
    return tmp_path / "bytes_run"
