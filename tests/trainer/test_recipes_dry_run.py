"""Dry runs of all recipes: everything is built, two steps are made, nothing is kept."""

import gzip
import pathlib
import re

import pytest

from keras_transformer.cli.main import main
from keras_transformer.trainer.recipes import load_recipe
from tests.phrases import make_pairs

RECIPES = pathlib.Path(__file__).parents[2] / "training" / "recipes"
COMPARE = RECIPES.parent / "compare"
# Changes with which a dry run takes seconds on a CPU. The slow test runs the unchanged recipes.
NARROW = ("batches.tokens=256", "model.hidden_dim=32", "model.intermediate_dim=32")
ONE_LAYER = (*NARROW, "model.num_encoder_layers=1", "model.num_decoder_layers=1")
# For recipes that translate and draw as another one does.
ONLY_STEPS = ("evaluation.sentences=0", "tensorboard.attention=0", "export.enabled=false")
SMALLER = {
    "quickstart": ("data.builtin_pairs=1000", "model.num_encoder_layers=1"),
    "recall": ("data.builtin_pairs=1000", *ONE_LAYER),
    "language_model": (*NARROW, "batches.tokens=512", "model.num_layers=1"),
    "multi30k_en_de": ONE_LAYER,
    "multi30k_en_de_published": (*ONE_LAYER, *ONLY_STEPS),
    "multi30k_en_de_raw": ONE_LAYER,
    "wmt14_en_de_base": ONE_LAYER,
    "wmt14_en_de_big": (*ONE_LAYER, *ONLY_STEPS),
}


def write_corpus(files):
    """Writes phrases to the files of a recipe: parallel files, or one file of documents."""
    columns = list(zip(*make_pairs()[::5], strict=True))[-len(files) :]
    for file, texts in zip(files, columns, strict=True):
        path = pathlib.Path(file.replace("*", "_1"))
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "wt", encoding="utf-8") as out:
            out.write(("\n" if len(files) == 2 else "\n\n").join(texts) + "\n")


def dry_run(path, directory, monkeypatch, *options):
    """Runs a dry run in a directory, and checks that it leaves nothing behind."""
    monkeypatch.chdir(directory)
    recipe = load_recipe(path)
    data = recipe.data
    if data.builtin is None:
        for files in (data.train, data.validation, *data.test.values()):
            write_corpus(list(files))
    before = sorted(pathlib.Path().rglob("*"))
    # Determinism cannot be switched off again for other tests of this process.
    sets = ["training.deterministic=false", *options]
    if recipe.training.epochs is not None:  # epochs have few steps here
        sets.append("training.warmup_steps=1")
    arguments = [part for setting in sets for part in ("--set", setting)]
    assert main(["train", str(path), "--dry-run", *arguments]) == 0
    assert sorted(pathlib.Path().rglob("*")) == before


def every_recipe():
    """The recipes; those that differ from others in sizes and schedules only are slow tests."""
    for name in sorted(path.stem for path in RECIPES.glob("*.yaml")):
        is_first = name in ("quickstart", "language_model", "multi30k_en_de", "recall")
        yield pytest.param(name, marks=[] if is_first else pytest.mark.slow)


@pytest.mark.parametrize("name", every_recipe())
def test_dry_run_of_a_recipe_makes_two_steps(name, tmp_path, monkeypatch, capfd):
    dry_run(RECIPES / f"{name}.yaml", tmp_path, monkeypatch, *SMALLER.get(name, ()))
    output, progress = capfd.readouterr()
    assert "Traceback" not in progress
    assert re.search(r"\bstep 2 of 2\b", progress)
    steps = load_recipe(RECIPES / f"{name}.yaml").training.steps
    number = r"[\d,]+" if steps is None else f"{steps:,}"  # epochs depend on the corpus
    assert re.search(rf"\b{number} steps\b", output)


@pytest.mark.parametrize(
    "kind", ["recurrent", pytest.param("convolutional", marks=pytest.mark.slow)]
)
def test_dry_run_of_another_kind_of_model_makes_two_steps(kind, tmp_path, monkeypatch, capfd):
    options = ("data.builtin_pairs=1000", "model.hidden_dim=16", "batches.tokens=512")
    dry_run(COMPARE / f"dates_{kind}.yaml", tmp_path, monkeypatch, *options)
    assert re.search(r"\bstep 2 of 2\b", capfd.readouterr().err)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLER)
def test_dry_run_of_an_unchanged_recipe_succeeds(name, tmp_path, monkeypatch):
    dry_run(RECIPES / f"{name}.yaml", tmp_path, monkeypatch)
