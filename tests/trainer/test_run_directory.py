"""Directories of runs: of whom, for whom, and with what recipe."""

import os
import subprocess
import sys

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.run_directory import RunDirectory
from tests.trainer.small_runs import make_recipe

DATA = {"train": "train.tsv"}


def begun(path, **sections):
    run = RunDirectory(path)
    with run.locked():
        run.store_recipe(make_recipe(DATA, **sections))
    return run


def worked_on(path):
    """A run that has learned something."""
    run = begun(path)
    run.tokenizers.mkdir()
    return run


def test_a_new_run(tmp_path):
    run = begun(tmp_path / "new" / "run")
    assert sorted(path.name for path in run.path.iterdir()) == [".lock", "recipe.yaml"]
    run.require_recipe(make_recipe(DATA))


def test_a_run_that_found_no_files_is_begun_with_another_recipe(tmp_path):
    run = begun(tmp_path / "run")
    run.note_environment(pytest.fail)
    other = make_recipe({"train": "elsewhere/train.tsv"})
    assert not run.require_recipe(other)
    with pytest.raises(UserError, match="was begun with another recipe"):  # another worker's
        RunDirectory(run.path, is_writer=False).require_recipe(other)


def test_two_at_once(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with run.locked():
        message = r"run: is in use by another training\. Wait for it, or name another directory"
        with pytest.raises(UserError, match=message), RunDirectory(run.path).locked():
            pytest.fail("Two trainings must not have the same directory.")
        with RunDirectory(run.path, is_writer=False).locked():
            pass  # another worker of the same training
    with RunDirectory(run.path).locked():
        pass


def test_a_killed_process_leaves_no_lock(tmp_path):
    code = (
        "import fcntl, os, sys; file = open(sys.argv[1], 'a'); "
        "fcntl.flock(file, fcntl.LOCK_EX); os.kill(os.getpid(), 9)"
    )
    (tmp_path / "run").mkdir()
    command = [sys.executable, "-c", code, str(tmp_path / "run" / ".lock")]
    assert subprocess.run(command, check=False).returncode == -9
    with RunDirectory(tmp_path / "run").locked():
        pass


@pytest.mark.parametrize("place", ["file", "file/run", "link"])
def test_not_a_directory(tmp_path, place):
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"(file|link): is not a directory\. Name another"):
        begun(tmp_path / place)
    assert (tmp_path / "file").read_text() == "text"


def test_a_path_from_which_no_checkpoint_could_be_read(tmp_path):
    with pytest.raises(UserError, match=r"cannot load a model from a path with a \[ in it"):
        begun(tmp_path / "rates[1]" / "run")
    assert not list(tmp_path.iterdir())


def test_something_that_is_not_a_run(tmp_path):
    (tmp_path / "photo.jpg").write_text("not to be touched")
    with pytest.raises(UserError, match=r": holds something that is not a run\. Name another"):
        begun(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_not_writable(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir(mode=0o500)
    # The superuser can write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != run)
    with pytest.raises(UserError, match=r"run: permission denied\. Name another directory"):
        begun(run)


def test_a_kill_before_the_recipe_was_written(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").touch()
    (run / ".recipe.yaml.0123456789abcdef").write_text("name: dat")
    begun(run)
    assert sorted(path.name for path in run.iterdir()) == [".lock", "recipe.yaml"]


def test_what_was_being_written_when_a_process_was_killed_vanishes(tmp_path):
    run = begun(tmp_path / "run")
    (run.path / ".result.json.0123456789abcdef").write_text("{")
    (run.path / ".model.0123456789abcdef" / "tokenizers").mkdir(parents=True)
    (run.path / ".notes").write_text("of the user")
    with RunDirectory(run.path, is_writer=False).locked():
        assert (run.path / ".model.0123456789abcdef").exists(), "It may be another worker's."
    with run.locked():
        names = sorted(path.name for path in run.path.iterdir())
    assert names == [".lock", ".notes", "recipe.yaml"]


def test_a_changed_recipe_is_refused_with_the_difference(tmp_path):
    run = worked_on(tmp_path / "run")
    changed = make_recipe(DATA, training={"learning_rate": 0.5}, model={"dropout": 0.3}, seed=2)
    for force in (False, True):
        with pytest.raises(UserError) as refused:
            run.require_recipe(changed, force)
        text = str(refused.value)
        assert text.startswith(f"{run.path}: was begun with another recipe: ")
        assert "seed was 1, is 2" in text
        assert "model.dropout was 0.2, is 0.3" in text
        assert "training.learning_rate was 0.01, is 0.5" in text
        assert text.endswith("Give the recipe it was begun with, or another directory with --run.")


def test_some_of_it_may_change_by_force(tmp_path):
    run = worked_on(tmp_path / "run")
    longer = make_recipe(DATA, training={"steps": 99}, checkpoints={"final": "last"})
    with pytest.raises(UserError) as refused:
        run.require_recipe(longer)
    assert "training.steps was 12, is 99; checkpoints.final was 'average', is 'last'." in str(
        refused.value
    )
    assert str(refused.value).endswith("or change it under way with --force.")
    run.require_recipe(longer, force=True)
    mixed = make_recipe(DATA, training={"steps": 99, "ema": 0.5})
    with pytest.raises(UserError) as refused:
        run.require_recipe(mixed, force=True)
    assert "training.ema was 0.0, is 0.5." in str(refused.value)
    assert "training.steps" not in str(refused.value)


def test_where_the_export_goes_may_always_change(tmp_path):
    run = worked_on(tmp_path / "run")
    assert run.require_recipe(make_recipe(DATA, export={"to": "elsewhere"}))


def test_a_stored_recipe_that_cannot_be_read(tmp_path):
    run = worked_on(tmp_path / "run")
    run.recipe_file.write_text("name: [")
    with pytest.raises(UserError, match=r"recipe.yaml: cannot be read as a recipe of keras_tra"):
        run.require_recipe(make_recipe(DATA))


def test_another_environment_is_told(tmp_path, monkeypatch):
    run = begun(tmp_path / "run")
    monkeypatch.setattr(
        "keras_transformer.trainer.run_directory._environment", lambda: {"tensorflow": "2.21.0"}
    )
    run.note_environment(pytest.fail)
    run.note_environment(pytest.fail)
    monkeypatch.setattr(
        "keras_transformer.trainer.run_directory._environment", lambda: {"tensorflow": "2.22.0"}
    )
    said = []
    run.note_environment(said.append)
    assert said == [
        "The run was begun with tensorflow 2.21.0, and goes on with 2.22.0: the numbers may "
        "differ in their last digits."
    ]
