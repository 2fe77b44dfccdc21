"""Damage of any file of a finished run: found before the file is used."""

import random
import shutil

import pytest

from keras_transformer import load
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.trainer.run_directory import RunDirectory
from tests.trainer.small_runs import Trainings, make_recipe
from training.reliability.damage import covered_files, damage


@pytest.fixture(scope="module")
def finished(corpora, tmp_path_factory):
    """A finished run with everything but an export; tests must not change it."""
    run = tmp_path_factory.mktemp("finished") / "run"
    Trainings().train(make_recipe(corpora, evaluation={"sentences": 2}), run)
    return run


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def test_every_file_of_a_run_is_covered_and_no_damage_is_undetected(run):
    counts, undetected = damage(run, 1, random.Random(1))
    assert undetected == []
    assert counts.keys() == {"run", "model", "checkpoints", "cache"}
    assert counts["run"][0] == len(("manifest", "recipe", "environment", "corpora", "result")) + 2
    covered = {path for path, *_ in covered_files(run)}
    files = {path for path in run.rglob("*") if path.is_file() and path.stat().st_size}
    # Event files have a checksum for each record, which TensorBoard reads.
    assert {path.relative_to(run).parts[0] for path in files - covered} == {"tensorboard"}


def test_damage_that_is_undetected_is_counted(run, monkeypatch):
    monkeypatch.setattr(RunDirectory, "check", lambda self: None)
    counts, undetected = damage(run, 1, random.Random(1))
    assert "recipe.yaml: bit" in undetected
    files, changes, wrong = counts["run"]
    assert (files, changes) == (7, wrong)
    assert len(undetected) == wrong


def test_a_changed_number_in_the_description_of_a_model_is_found(run):
    path = run / "model" / "model.json"
    path.write_text(path.read_text().replace('"padding_id": 0', '"padding_id": 2'))
    with pytest.raises(UserError, match=r"model\.json: damaged"):
        load(run)


def test_a_run_without_manifests_is_answered_in_one_line_and_can_be_sealed(run, capsys, corpora):
    for manifest in (run / "manifest.json", run / "model" / "manifest.json"):
        manifest.unlink()
    with pytest.raises(UserError, match="keras-transformer seal"):
        load(run)
    with pytest.raises(UserError, match="keras-transformer seal"):
        RunDirectory(run).require_recipe(make_recipe(corpora))
    assert main(["seal", str(run)]) == 0
    assert capsys.readouterr().out.count("Sealed: ") == 2
    assert load(run).translate("zwei rote Hunde") is not None
    RunDirectory(run).check()


def test_a_change_on_purpose_is_accepted_by_seal_but_damaged_weights_are_not(run, capsys):
    (run / "recipe.yaml").write_text("# Our first model\n" + (run / "recipe.yaml").read_text())
    assert main(["seal", str(run)]) == 0
    RunDirectory(run).check()
    weights = run / "model" / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert main(["seal", str(run)]) == 2
    assert "model.weights.h5: damaged" in capsys.readouterr().err


def test_seal_of_something_else_is_refused_and_writes_nothing(tmp_path, capsys):
    (tmp_path / "photo.jpg").touch()
    assert main(["seal", str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]
