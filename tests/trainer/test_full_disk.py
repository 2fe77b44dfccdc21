"""A disk that becomes full during a training: the error names the file, and nothing is lost."""

import contextlib
import re
import resource

import pytest

from keras_transformer.trainer import TrainingStopped
from tests.trainer.small_runs import checkpoint_of, left_by, make_recipe, require_same, steps_of


@contextlib.contextmanager
def no_file_larger_than(size):
    """Simulates a full disk: writing a file beyond this size is an error."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.fixture(autouse=True)
def seed():
    """Overrides the seed of all tests: recipes have their own."""


@pytest.fixture
def recipe(corpora):
    return make_recipe(corpora, checkpoints={"every": 8}, tensorboard={"histograms": True})


def test_training_continues_after_a_full_disk(trainings, recipe, tmp_path):
    trainings.train(recipe, tmp_path / "undisturbed")
    expected = left_by(tmp_path / "undisturbed")
    run = tmp_path / "run"
    with pytest.raises(TrainingStopped):
        trainings.train(recipe, run, stop_after=2)
    checkpoint = checkpoint_of(run, 2)
    tensors = next(tmp_path.glob("undisturbed/checkpoints/*/tensors.data*"))
    for size, place in (
        (tensors.stat().st_size - 1, "checkpoints/step_00000008"),
        (8000, "tensorboard"),  # at the first histograms
        (100, "metrics.jsonl"),
    ):
        message = f"^{re.escape(str(run / place))}: File too large"
        with no_file_larger_than(size), pytest.raises(OSError, match=message) as error:
            trainings.train(recipe, run)
        assert "\n" not in str(error.value)
        assert not list(run.glob("checkpoints/.*"))
        assert steps_of(run) == [2]
        assert checkpoint_of(run, 2) == checkpoint
    trainings.train(recipe, run)
    require_same(run, expected)


@pytest.mark.parametrize(("size", "place"), [(100, "run"), (2000, "run/recipe.yaml")])
def test_a_disk_that_is_full_at_the_start_leaves_a_run_that_can_start(
    trainings, recipe, tmp_path, size, place
):
    with no_file_larger_than(size), pytest.raises(OSError, match=f"{place}: File too large"):
        trainings.train(recipe, tmp_path / "run", stop_after=2)
    with pytest.raises(TrainingStopped):
        trainings.train(recipe, tmp_path / "run", stop_after=2)
