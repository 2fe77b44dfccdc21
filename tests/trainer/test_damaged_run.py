"""One flipped bit in any file of a finished run: found before the file is used."""

import shutil

import pytest

from keras_transformer import load
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.data.token_cache import DamagedCacheError, TokenCache
from keras_transformer.trainer.checkpoints import Checkpoints, DamagedCheckpointError
from keras_transformer.trainer.run_directory import RunDirectory
from tests.trainer.small_runs import Trainings, make_recipe


@pytest.fixture(scope="module")
def finished(corpora, tmp_path_factory):
    """A finished run with everything but an export; tests must not change it."""
    run = tmp_path_factory.mktemp("finished") / "run"
    Trainings().train(make_recipe(corpora, evaluation={"sentences": 2}), run)
    return run


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def check_run(run, name):
    RunDirectory(run).check()


def check_model(run, name):
    load(run)


def check_checkpoint(run, name):
    step = int(name.parts[1].removeprefix("step_"))
    Checkpoints(run / "checkpoints", keep=1, is_writer=False).read(step)


def check_cache(run, name):
    TokenCache((run / name).parent)


#: What reads the files of each part of a run.
READERS = {"model": check_model, "checkpoints": check_checkpoint, "cache": check_cache}
#: Event files have a checksum for each record, which TensorBoard reads. Locks are empty.
TENSORBOARD = "tensorboard"
FOUND = (UserError, DamagedCheckpointError, DamagedCacheError)


def test_every_file_of_a_run_is_covered_and_one_flipped_bit_is_found(finished, run):
    names = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
    covered = [name for name in names if name.parts[0] != TENSORBOARD and name.suffix != ".lock"]
    parts = {name.parts[0] for name in covered}
    assert {"manifest.json", "recipe.yaml", "tokenizers", "metrics.jsonl", "result.json"} < parts
    assert READERS.keys() < parts
    for name in filter(lambda name: (finished / name).stat().st_size, covered):
        check = READERS.get(name.parts[0], check_run)
        check(run, name)
        damaged = bytearray(content := (finished / name).read_bytes())
        damaged[len(content) // 2] ^= 4
        (run / name).write_bytes(damaged)
        with pytest.raises(FOUND) as found:
            check(run, name)
        assert name.name in str(found.value)
        (run / name).write_bytes(content)


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
    assert "not the directory of a run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]
