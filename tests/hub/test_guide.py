"""The guide about pretrained models: its table, commands, code and recipe."""

import pathlib
import re
import shlex
import shutil

from keras_transformer.cli.main import make_parser
from keras_transformer.hub import FAMILIES
from keras_transformer.hub.family import import_families
from keras_transformer.trainer import Recipe
from keras_transformer.trainer.recipe_file import read_yaml

GUIDE = (pathlib.Path(__file__).parents[2] / "docs/guides/pretrained.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_table_lists_all_families():
    import_families()
    rows = re.findall(r"^\| (`.*?) \|", GUIDE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(FAMILIES)


def test_commands_are_valid():
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "keras-transformer"
        make_parser().parse_args(arguments)


def test_code_runs(opus, tmp_path, monkeypatch):
    first, *others = blocks("python")
    shutil.copytree(opus, tmp_path / "opus-mt-en-de")
    monkeypatch.chdir(tmp_path)
    exec(compile(first, "guide", "exec"), {})
    for code in others:  # the other checkpoints are not here
        compile(code, "guide", "exec")


def test_recipe_is_valid(imported, tmp_path, monkeypatch):
    (text,) = blocks("yaml")
    (tmp_path / "runs").mkdir()
    shutil.copytree(imported, tmp_path / "runs" / "opus-mt-en-de")
    monkeypatch.chdir(tmp_path)
    recipe = Recipe.from_dictionary(read_yaml(text)[0])
    assert recipe.model.freeze == ("embedding", "encoder/block_[0-2]")
