"""Set before TensorFlow starts: quiet, and one thread for each of pytest's parallel workers."""

import contextlib
import gc
import io
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# XLA optimizes as usual, but LLVM does not optimize machine code that runs only once or twice. This
# halves the time of compilation in the tests.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import hypothesis
import keras
import numpy as np
import pytest

# Objects that imports created live until the end, so the garbage collector can ignore them. Keras
# models and graphs are many objects: collecting less often saves a tenth of the time.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 10, 20)

# Property tests have no deadline, and draw the same examples every time.
hypothesis.settings.register_profile("keras_transformer", deadline=None, derandomize=True)
hypothesis.settings.load_profile("keras_transformer")

# Scripts: one is only type-checked, the others need torch and transformers.
collect_ignore = ["typing"]
collect_ignore_glob = ["fixtures/*.py"]


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(7)


@pytest.fixture(autouse=True)
def deterministic_training_ends():
    """Trainings make operations deterministic for the rest of a process, which excludes XLA."""
    yield
    from tensorflow.python.framework import config

    config.disable_op_determinism()


@pytest.fixture
def random():
    """A NumPy generator with the same seed in every test."""
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def phrases_run(tmp_path_factory):
    """The directory of a trained model that translates phrases; see tests/phrases.py."""
    from tests import phrases

    directory = phrases.shared_directory(tmp_path_factory)
    return phrases.made_once(directory, "phrases_run", lambda path: phrases.train().save(path))


@pytest.fixture(scope="session")
def phrases_export(tmp_path_factory, phrases_run):
    """The directory of the versions of the export of `phrases_run`; there is one version."""
    from tests import phrases

    directory = phrases.shared_directory(tmp_path_factory)
    return phrases.made_once(
        directory, "phrases", lambda path: phrases.export_phrases(phrases_run, path)
    )


@pytest.fixture(scope="session")
def bytes_export(tmp_path_factory):
    """The directory of a portable export, version 7, with weights of half the size.

    The command `export` makes it; the output of the command is in said.txt in the same directory.
    """
    from keras_transformer.cli.main import main
    from tests import phrases

    def make(path):
        run = path.with_name("bytes_run")
        phrases.make_bytes_model().save(run)
        command = f"export {run} --to {path} --version 7 --weights bfloat16 --portable"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert main([*command.split(), "--beams", "2", "--max-length", "8"]) == 0
        path.with_name("said.txt").write_text(said.getvalue())

    return phrases.made_once(phrases.shared_directory(tmp_path_factory), "bytes", make)
