"""`keras-transformer train`: options, streams, exit codes. The training itself is replaced."""

import logging
import pathlib
import warnings

import pytest

from keras_transformer import trainer
from keras_transformer.cli.main import main
from keras_transformer.trainer.signals import StopSignal, TrainingFailed, TrainingStopped
from tests.trainer.progress.finished_training import make_result


class Training:
    """Replacement of `trainer.train` that stores its arguments and calls a function."""

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
    """Returns a function that runs the command and returns the exit code and the `Training`."""
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


def test_train_by_name_uses_a_run_directory_of_that_name(train):
    exit_code, training = train("quickstart")
    assert exit_code == 0
    assert training.run_directory == pathlib.Path("runs", training.recipe.name)
    assert (training.dry_run, training.force) == (False, False)


def test_train_passes_all_options(train):
    options = "--set training.steps=777 --set model.dropout=0.3 --run there --dry-run --force"
    exit_code, training = train("quickstart", *options.split())
    assert exit_code == 0
    assert training.recipe.training.steps == 777
    assert training.recipe.to_dictionary()["model"]["dropout"] == 0.3
    assert training.run_directory == "there"
    assert (training.dry_run, training.force) == (True, True)


def test_train_reads_a_file_with_spaces_in_its_name(train, tmp_path):
    recipe = trainer.load_recipe("quickstart")
    (tmp_path / "my recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    exit_code, training = train("my recipe.yaml")
    assert exit_code == 0
    assert training.recipe == recipe


def test_train_writes_progress_to_stderr_and_the_summary_to_stdout(train, capsys):
    def work(report):
        report.stage("Building the model")
        report.end(make_result())

    train("quickstart", work=work)
    output, progress = capsys.readouterr()
    assert progress == "Building the model\n"
    assert output.startswith("\ndates\n")
    assert " 12,000\n" in output


class Exited(BaseException):
    """Raised in place of the end of the process, with the exit code."""


@pytest.fixture
def exits(monkeypatch):
    """Replaces the immediate end of the process by `Exited`."""

    def exit_process(exit_code):
        raise Exited(exit_code)

    monkeypatch.setattr("os._exit", exit_process)


@pytest.mark.usefixtures("exits")
@pytest.mark.parametrize("exit_code", [130, 143, 129])
@pytest.mark.parametrize("is_dry_run", [False, True])
def test_stopped_training_is_one_line_and_the_exit_code_of_its_signal(
    train, capsys, exit_code, is_dry_run
):
    stopped = TrainingStopped(12_345, exit_code, is_dry_run)
    with pytest.raises(Exited) as exited:
        train("quickstart", work=raising(stopped))
    assert exited.value.args == (exit_code,)
    assert capsys.readouterr() == ("", f"Building the model\n{stopped}\n")


def test_failed_training_is_one_line_and_exit_code_1(train, capsys):
    failed = TrainingFailed("The loss is not finite at step 7. Lower the learning rate.")
    assert train("quickstart", work=raising(failed))[0] == 1
    assert capsys.readouterr() == (
        "",
        f"Building the model\nkeras-transformer: {failed}\n",
    )


def test_full_disk_is_one_line_and_exit_code_1(train, capsys):
    error = OSError("runs/dates: No space left on device. Free some space.")
    assert train("quickstart", work=raising(error))[0] == 1
    assert capsys.readouterr().err == f"Building the model\nkeras-transformer: {error}\n"


@pytest.mark.usefixtures("exits")
@pytest.mark.parametrize(
    ("error", "exit_code", "lines"),
    [(StopSignal(15), 143, 2), (StopSignal(1), 129, 2), (KeyboardInterrupt(), 130, 1)],
)
def test_interrupted_training_has_the_exit_code_of_its_signal(
    train, capsys, error, exit_code, lines
):
    with pytest.raises(Exited) as exited:
        train("quickstart", work=raising(error))
    assert exited.value.args == (exit_code,)
    assert capsys.readouterr().err.count("\n") == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere.yaml", "nowhere.yaml: "),
        ("quickstart --set training.stepz=3", "training.steps"),
    ],
)
def test_mistakes_are_reported_before_training_with_exit_code_2(train, capsys, arguments, message):
    exit_code, training = train(*arguments.split())
    assert exit_code == 2
    assert not hasattr(training, "recipe")
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("keras-transformer: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_train_shows_warnings_and_logs_of_the_package_only(train, capfd):
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
    output, messages = capfd.readouterr()
    assert output == ""
    assert messages == "The vocabulary is small.\nAnother process is building this.\n"


def test_train_restores_logging_and_warnings(train):
    logger = logging.getLogger("keras_transformer")
    before = (logger.level, logger.propagate, list(logger.handlers), warnings.showwarning)
    train("quickstart", work=raising(TrainingFailed("It failed.")))
    assert before == (logger.level, logger.propagate, logger.handlers, warnings.showwarning)
