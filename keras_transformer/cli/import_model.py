"""Imports a pretrained model, as Hugging Face stores it, as a run directory.

  keras-transformer import opus-mt-en-de --to runs/opus-mt-en-de
  keras-transformer translate runs/opus-mt-en-de < FILE
  keras-transformer export runs/opus-mt-en-de --to saved_models/opus-mt-en-de

The directory must hold config.json, model.safetensors (or its shards) and the tokenizer's files.
Nothing is downloaded, and no pickle file is read. A model that this package cannot represent
exactly is refused, with the name of the key or tensor.
"""

import argparse

from keras_transformer._utils.console import shown
from keras_transformer.cli import shared

SUMMARY = "import a pretrained model: a Hugging Face directory becomes a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "directory",
        metavar="DIR",
        help="directory with config.json and model.safetensors, or .gguf file",
    )
    add("--to", required=True, metavar="RUN", help="the run directory, such as runs/NAME")
    for side in ("source", "target"):
        code = f"code of the {side}'s language, such as eng_Latn, for a multilingual model"
        add(f"--{side}-language", metavar="CODE", help=f"{code} (default: that of the files)")


def run(arguments: argparse.Namespace) -> None:
    shared.run_with_tensorflow(import_pretrained, arguments)


def import_pretrained(arguments: argparse.Namespace) -> None:
    """Imports the model and prints what can be done with it."""
    from keras_transformer._utils.errors import named_file_errors
    from keras_transformer.export.trained_model import model_directory, read_description
    from keras_transformer.hub import import_model

    with named_file_errors(arguments.to, remedy="Fix the cause and import again."):
        path = import_model(
            arguments.directory,
            arguments.to,
            source_language=arguments.source_language,
            target_language=arguments.target_language,
        )
    name = shown(str(path))
    print(f"Imported: {name}")
    commands = [f"export {name} --to saved_models/{shown(path.name)}"]
    if read_description(model_directory(path))["class"] != "TextEncoder":  # which writes no text
        commands.insert(0, f"translate {name} < FILE")
    for start, command in zip(("Next:", "     "), commands, strict=False):
        print(f"{start} keras-transformer {command}")
