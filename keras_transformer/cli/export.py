"""Writes a trained model as a SavedModel that takes strings, or for another runtime.

  keras-transformer export runs/dates --to saved_models/dates
  keras-transformer export runs/dates --to saved_models/dates --beams 8 --weights bfloat16
  keras-transformer export runs/dates --to saved_models/dates_small --weights int8
  keras-transformer export runs/dates --to saved_models/dates_fast --signatures translate
  keras-transformer export runs/dates --to saved_models/dates_here --xla
  keras-transformer export runs/dates --to exports/dates --format ctranslate2 --weights int8

The next version, such as saved_models/dates/1, appears when it is complete: a clean process has
loaded it and given the same answers as the model in memory. TensorFlow Serving, and TensorFlow in
any language, can load the export. saved_models/README.md describes the signatures.

An export in another format holds a program, run.py, that needs the runtime of the format and no
TensorFlow. It must give the answers of the model in memory as well.
"""

import argparse
import inspect

from keras_transformer._utils.checks import require_choice, require_integer
from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer.cli import shared

SUMMARY = "write a trained model as a SavedModel, or for another runtime"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run_directory", metavar="RUN", help="the directory of a training run")
    directory = "directory of all versions of this model, such as saved_models/NAME"
    add("--to", required=True, metavar="DIR", help=directory)
    kind = "a registered export format (default: %(default)s)"
    add("--format", metavar="NAME", default="saved_model", help=kind)
    add("--version", type=int, metavar="N", help="default: the next number")
    shared.add_search_options(parser)
    limit = "longer texts are cut (default: the model's max_length; for a language model, what "
    limit += "--max-length leaves of it, but at least half of it)"
    add("--max-source-tokens", type=int, metavar="N", help=limit)
    weights = "dtype in which weights are stored; the effect is measured (default: float32)"
    add("--weights", choices=("float32", "float16", "bfloat16", "int8"), help=weights)
    signatures = (
        "write only these, such as translate, score or embed: a smaller graph, which loads "
    )
    signatures += "faster (default: all that the model offers)"
    add("--signatures", nargs="+", metavar="NAME", help=signatures)
    xla = "compile the search with XLA: faster, but not for TensorFlow Serving"
    add("--xla", action="store_true", help=xla)
    portable = "require core operations, so that tensorflow-text is not needed; for models of bytes"
    add("--portable", action="store_true", help=portable)


def run(arguments: argparse.Namespace) -> None:
    shared.run_with_tensorflow(export, arguments)


def export(arguments: argparse.Namespace) -> None:
    """Loads the run, exports it and prints where the export is."""
    from keras_transformer._utils.errors import named_file_errors
    from keras_transformer.decoding import SearchSettings
    from keras_transformer.export import FORMATS, TextLimits, TrainedModel, export_model

    # Only settings that were given, since other formats may not have them.
    given = {
        name: getattr(arguments, name) for name in ("weights", "signatures", "xla", "portable")
    }
    settings = {name: value for name, value in given.items() if value}
    kind = FORMATS[require_choice("format", arguments.format, FORMATS)]
    known = inspect.signature(kind).parameters
    for name in settings:
        if name not in known:
            raise UserError(f"The format {arguments.format!r} has no option --{name}.")
    # Mistakes in settings are reported before anything is loaded.
    searching = shared.search_settings(arguments)
    SearchSettings(**searching)
    if arguments.max_source_tokens is not None:
        tokens = require_integer("max_source_tokens", arguments.max_source_tokens, minimum=1)
        settings["limits"] = TextLimits(tokens=tokens)
    if arguments.version is not None:
        require_integer("version", arguments.version, minimum=0)
    trained = TrainedModel.load(arguments.run_directory)
    if searching:
        settings["search"] = trained.search_settings(**searching)
    with named_file_errors(arguments.to, remedy="Fix the cause and export again."):
        path = export_model(
            trained, arguments.to, arguments.format, version=arguments.version, **settings
        )
    name = shown(str(path))
    print(f"Exported: {name}")
    print(f"Next: keras-transformer verify {name}")
    if arguments.format == "saved_model" and hasattr(trained.model, "generate"):
        print(f"      keras-transformer translate {name} < FILE")
    elif (path / "run.py").exists():
        print(f"      python {name}/run.py < FILE")
