"""Set before TensorFlow starts: quiet, and one thread for each of pytest's parallel workers."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(7)


@pytest.fixture
def random():
    """A NumPy generator that starts anew in every test."""
    return np.random.default_rng(7)
