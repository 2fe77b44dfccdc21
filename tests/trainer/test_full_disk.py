"""A disk that is full in the middle of a training: one line, and nothing is lost."""

import contextlib
import resource

import pytest
import yaml

from keras_transformer.cli.main import main
from keras_transformer.trainer import TrainingStopped
from tests.trainer.small_runs import checkpoint_of, left_by, make_recipe, require_same, updates_of


@contextlib.contextmanager
def no_file_larger_than(size):
    """As a disk that is full: what is written beyond so many bytes is an error."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.fixture(autouse=True)
def seed():
    """Recipes have one of their own."""


@pytest.fixture
def recipe(corpora):
    return make_recipe(corpora, checkpoints={"every": 8}, tensorboard={"histograms": True})


@pytest.fixture
def train(trainings, recipe, tmp_path, capsys):
    """Runs the command in this process; returns its exit code and what it has told."""
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe.to_dictionary()))

    def run(name):
        exit_code = main(["train", str(path), "--run", str(tmp_path / name)])
        return exit_code, capsys.readouterr().err.splitlines()

    return run


def test_a_full_disk(train, trainings, recipe, tmp_path):
    assert train("undisturbed")[0] == 0
    expected = left_by(tmp_path / "undisturbed")
    run = tmp_path / "run"
    with pytest.raises(TrainingStopped):
        trainings.train(recipe, run, stop_after=2)
    checkpoint = checkpoint_of(run, 2)
    tensors = next(tmp_path.glob("undisturbed/checkpoints/*/tensors.data*"))
    for size, place in (
        (tensors.stat().st_size - 1, "checkpoints/update_00000008"),
        (8000, "tensorboard"),  # at the first histograms
        (100, "recipe.yaml"),
    ):
        with no_file_larger_than(size):
            exit_code, told = train("run")
        assert exit_code == 1
        assert told[-1] == (
            f"keras-transformer: {run}/{place}: File too large. Put that right, and the same "
            "command goes on from the last checkpoint."
        )
        assert not [line for line in told if "Traceback" in line or "Error" in line]
        assert not list(run.glob("checkpoints/.*"))
        assert updates_of(run) == [2]
        assert checkpoint_of(run, 2) == checkpoint
    assert train("run")[0] == 0
    require_same(run, expected)
