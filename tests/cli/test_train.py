"""`keras-transformer train`, as a person meets it."""

import logging
import pathlib
import warnings

import pytest

from keras_transformer import trainer
from keras_transformer.cli.main import main
from keras_transformer.trainer.signals import StopSignal, TrainingFailed, TrainingStopped
from tests.trainer.progress.finished_training import make_result


class Training:
    """Stands for `trainer.train`: keeps what it is given, and does as it is told."""

    def __init__(self, work=lambda report: None):
        self._work = work

    def __call__(self, recipe, run_directory, *, dry_run, force, report):
        self.recipe = recipe
        self.run_directory = run_directory
        self.dry_run = dry_run
        self.force = force
        self._work(report)


@pytest.fixture
def train(monkeypatch, tmp_path):
    """Runs the verb with another training; returns the exit code and that training."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, work=lambda report: None):
        training = Training(work)
        monkeypatch.setattr(trainer, "train", training, raising=False)
        return main(["train", *arguments]), training

    return run


def raising(error):
    def work(report):
        report.stage("Building the model")
        raise error

    return work


def test_a_recipe_of_the_package_runs_in_a_directory_of_its_name(train):
    exit_code, training = train("quickstart")
    assert exit_code == 0
    assert training.run_directory == pathlib.Path("runs", training.recipe.name)
    assert (training.dry_run, training.force) == (False, False)


def test_all_options(train):
    options = "--set training.steps=777 --set model.dropout=0.3 --run there --dry-run --force"
    exit_code, training = train("quickstart", *options.split())
    assert exit_code == 0
    assert training.recipe.training.steps == 777
    assert training.recipe.to_dictionary()["model"]["dropout"] == 0.3
    assert training.run_directory == "there"
    assert (training.dry_run, training.force) == (True, True)


def test_a_recipe_of_ones_own(train, tmp_path):
    recipe = trainer.recipe.load_recipe("quickstart")
    (tmp_path / "Mein Rezept.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    exit_code, training = train("Mein Rezept.yaml")
    assert exit_code == 0
    assert training.recipe == recipe


def test_progress_on_standard_error_and_the_summary_on_standard_output(train, capsys):
    def work(report):
        report.stage("Building the model")
        report.end(make_result())

    train("quickstart", work=work)
    printed, told = capsys.readouterr()
    assert told == "Building the model\n"
    assert printed.startswith("\ndates\nupdates     12,000\n")


class Ended(BaseException):
    """Stands for the end of the process, with the exit code."""


@pytest.fixture
def ending(monkeypatch):
    def end(exit_code):
        raise Ended(exit_code)

    monkeypatch.setattr("os._exit", end)


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("exit_code", [130, 143, 129])
def test_a_stop_is_told_with_what_is_saved(train, capsys, exit_code):
    with pytest.raises(Ended) as ended:
        train("quickstart", work=raising(TrainingStopped(12_345, exit_code)))
    assert ended.value.args == (exit_code,)
    assert capsys.readouterr() == (
        "",
        "Building the model\nSaved at update 12,345. The same command goes on from there.\n",
    )


@pytest.mark.usefixtures("ending")
def test_a_stopped_dry_run_does_not_promise_to_go_on(train, capsys):
    with pytest.raises(Ended):
        train("quickstart", work=raising(TrainingStopped(1, 143, is_dry_run=True)))
    assert capsys.readouterr().err == (
        "Building the model\nStopped at update 1. Nothing is kept of a dry run.\n"
    )


def test_a_failure_is_one_line_and_exit_code_1(train, capsys):
    failed = TrainingFailed("The loss is not finite at update 7. Lower the learning rate.")
    assert train("quickstart", work=raising(failed))[0] == 1
    assert capsys.readouterr().err == (
        "Building the model\n"
        "keras-transformer: The loss is not finite at update 7. Lower the learning rate.\n"
    )


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(StopSignal(15), 143), (StopSignal(1), 129), (KeyboardInterrupt(), 130)],
)
def test_a_stop_at_once_has_the_exit_code_of_its_signal(train, error, exit_code):
    with pytest.raises(Ended) as ended:
        train("quickstart", work=raising(error))
    assert ended.value.args == (exit_code,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere.yaml", "nowhere.yaml: no such file"),
        ("quickstart --set training.stepz=3", "training.steps"),
    ],
)
def test_mistakes_are_told_before_any_work_with_exit_code_2(train, capsys, arguments, message):
    exit_code, training = train(*arguments.split())
    assert exit_code == 2
    assert not hasattr(training, "recipe")
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith("keras-transformer: ")
    assert message in complaint
    assert "Traceback" not in complaint


def test_the_packages_warnings_are_said_and_those_of_others_are_not(train, capfd):
    def work(report):
        warn("The vocabulary is small.", "keras_transformer.trainer.vocabulary")
        warn("Something is deprecated.", "keras.src.layers")
        logging.getLogger("keras_transformer.data").info("Another process is building this.")
        logging.getLogger("keras_transformer.data").debug("A detail.")
        logging.getLogger("tensorflow").warning("5 out of the last 5 calls")
        logging.getLogger("absl").warning("You are saving your model")

    def warn(text, module):
        warnings.warn_explicit(text, UserWarning, f"{module}.py", 1, module=module)

    assert train("quickstart", work=work)[0] == 0
    printed, told = capfd.readouterr()
    assert printed == ""
    assert told == "The vocabulary is small.\nAnother process is building this.\n"


def test_logging_and_warnings_are_afterwards_as_they_were(train):
    logger = logging.getLogger("keras_transformer")
    before = (logger.level, logger.propagate, list(logger.handlers), warnings.showwarning)
    train("quickstart", work=raising(TrainingFailed("It failed.")))
    assert before == (logger.level, logger.propagate, logger.handlers, warnings.showwarning)
