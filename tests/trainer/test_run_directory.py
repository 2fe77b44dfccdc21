"""Run directories: locks, recipes, environments, and paths that cannot be used."""

import os
import subprocess
import sys

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.run_directory import RunDirectory
from tests.trainer.small_runs import make_recipe

DATA = {"train": "train.tsv"}


def started(path, **sections):
    """Returns a run that has a recipe."""
    run = RunDirectory(path)
    with run.lock():
        run.store_recipe(make_recipe(DATA, **sections))
    return run


def with_vocabulary(path):
    """Returns a run that has a recipe and a vocabulary."""
    run = started(path)
    run.tokenizers.mkdir()
    return run


def test_new_run_has_lock_and_recipe(tmp_path):
    run = started(tmp_path / "new" / "run")
    assert sorted(path.name for path in run.path.iterdir()) == [
        ".lock",
        "manifest.json",
        "recipe.yaml",
    ]
    run.require_recipe(make_recipe(DATA))


def test_run_without_work_accepts_another_recipe(tmp_path):
    run = started(tmp_path / "run")
    run.store_environment(pytest.fail)
    other = make_recipe({"train": "elsewhere/train.tsv"})
    assert not run.require_recipe(other)
    with pytest.raises(UserError, match="another recipe"):  # it may be another worker's
        RunDirectory(run.path, is_writer=False).require_recipe(other)


def test_locked_directory_is_refused(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with run.lock():
        with pytest.raises(UserError, match="run: another training"):
            RunDirectory(run.path).lock()
        with RunDirectory(run.path, is_writer=False).lock():
            pass  # another worker of the same training
    with RunDirectory(run.path).lock():
        pass


def test_lock_of_a_killed_process_is_released(tmp_path):
    code = (
        "import filelock, os, sys; "
        "filelock.FileLock(sys.argv[1]).acquire(); os.kill(os.getpid(), 9)"
    )
    (tmp_path / "run").mkdir()
    command = [sys.executable, "-c", code, str(tmp_path / "run" / ".lock")]
    assert subprocess.run(command, check=False).returncode == -9
    with RunDirectory(tmp_path / "run").lock():
        pass


@pytest.mark.parametrize("place", ["file", "file/run", "link"])
def test_path_that_is_not_a_directory_is_refused(tmp_path, place):
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"(file|link): not a directory"):
        started(tmp_path / place)
    assert (tmp_path / "file").read_text() == "text"


def test_path_from_which_tensorflow_cannot_load_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"rates\[1\]"):
        started(tmp_path / "rates[1]" / "run")
    assert not list(tmp_path.iterdir())


def test_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "photo.jpg").write_text("not to be touched")
    with pytest.raises(UserError, match="--run"):
        started(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_directory_without_permission_is_refused(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir(mode=0o500)
    # The superuser can write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != run)
    with pytest.raises(UserError, match="run: permission denied"):
        started(run)


def test_run_killed_before_its_recipe_was_written_is_started(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").touch()
    (run / ".recipe.yaml.0123456789abcdef").write_text("name: dat")
    started(run)
    assert sorted(path.name for path in run.iterdir()) == [".lock", "manifest.json", "recipe.yaml"]


def test_temporary_files_of_a_killed_process_are_removed(tmp_path):
    run = started(tmp_path / "run")
    (run.path / ".result.json.0123456789abcdef").write_text("{")
    (run.path / ".model.0123456789abcdef" / "tokenizers").mkdir(parents=True)
    (run.path / ".notes").write_text("of the user")
    with RunDirectory(run.path, is_writer=False).lock():
        assert (run.path / ".model.0123456789abcdef").exists(), "It may be another worker's."
    with run.lock():
        names = sorted(path.name for path in run.path.iterdir())
    assert names == [".lock", ".notes", "manifest.json", "recipe.yaml"]


def test_changed_recipe_is_refused_with_the_differences(tmp_path):
    run = with_vocabulary(tmp_path / "run")
    changed = make_recipe(DATA, training={"learning_rate": 0.5}, model={"dropout": 0.3}, seed=2)
    for force in (False, True):
        with pytest.raises(UserError) as refused:
            run.require_recipe(changed, force)
        text = str(refused.value)
        assert text.startswith(f"{run.path}: ")
        assert "seed was 1, is 2" in text
        assert "model.dropout was 0.2, is 0.3" in text
        assert "training.learning_rate was 0.01, is 0.5" in text
        assert "--force" not in text


def test_some_keys_may_change_by_force(tmp_path):
    run = with_vocabulary(tmp_path / "run")
    longer = make_recipe(DATA, training={"steps": 99}, checkpoints={"final": "last"})
    with pytest.raises(UserError) as refused:
        run.require_recipe(longer)
    assert "training.steps was 12, is 99; checkpoints.final was 'average', is 'last'." in str(
        refused.value
    )
    assert "--force" in str(refused.value)
    run.require_recipe(longer, force=True)
    assert run.require_recipe(make_recipe(DATA, training={"loggers": ["jsonl"]}), force=True)
    mixed = make_recipe(DATA, training={"steps": 99, "ema": 0.5})
    with pytest.raises(UserError) as refused:
        run.require_recipe(mixed, force=True)
    assert "training.ema was 0.0, is 0.5." in str(refused.value)
    assert "training.steps" not in str(refused.value)


def test_directory_of_exports_may_always_change(tmp_path):
    run = with_vocabulary(tmp_path / "run")
    assert run.require_recipe(make_recipe(DATA, export={"to": "elsewhere"}))


def test_stored_recipe_that_cannot_be_read_is_refused(tmp_path):
    run = with_vocabulary(tmp_path / "run")
    run.recipe_file.write_text("name: [")
    with pytest.raises(UserError, match=r"recipe\.yaml: damaged"):
        run.require_recipe(make_recipe(DATA))
    run.seal()
    with pytest.raises(UserError, match=r"recipe\.yaml: not a recipe"):
        run.require_recipe(make_recipe(DATA))


def test_changed_environment_is_reported(tmp_path, monkeypatch):
    run = started(tmp_path / "run")
    monkeypatch.setattr(
        "keras_transformer.trainer.run_directory._environment", lambda: {"tensorflow": "2.21.0"}
    )
    run.store_environment(pytest.fail)
    run.store_environment(pytest.fail)
    monkeypatch.setattr(
        "keras_transformer.trainer.run_directory._environment", lambda: {"tensorflow": "2.22.0"}
    )
    said = []
    run.store_environment(said.append)
    (text,) = said
    assert "tensorflow 2.21.0" in text
    assert "2.22.0" in text
