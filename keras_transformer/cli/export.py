"""Writes a trained model as a SavedModel that takes strings and returns strings.

  keras-transformer export runs/dates --to saved_models/dates
  keras-transformer export runs/dates --to saved_models/dates --beams 8 --weights bfloat16
  keras-transformer export runs/dates --to saved_models/dates_here --xla

The next version, such as saved_models/dates/1, appears when it is complete: a clean process has
loaded it and given the same answers as the model in memory. TensorFlow Serving loads it as it is;
so does TensorFlow from any other language. See saved_models/README.md for the signatures.
"""

from keras_transformer._utils.checks import require_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_input import (
    add_search_options,
    run_with_tensorflow,
    search_settings,
)

SUMMARY = "write a trained model as a SavedModel: strings in, strings out"


def add_arguments(parser):
    parser.add_argument("run_directory", metavar="RUN", help="the directory of a training run")
    parser.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="where the versions of this model are, such as saved_models/NAME",
    )
    parser.add_argument("--version", type=int, metavar="N", help="default: the next number")
    add_search_options(parser)
    parser.add_argument(
        "--max-source-tokens",
        type=int,
        metavar="N",
        help="longer texts are cut (default: the model's max_length; of a language model, what "
        "--max-length leaves of it, but half of it at least)",
    )
    parser.add_argument(
        "--weights",
        choices=("float32", "float16", "bfloat16"),
        default="float32",
        help="the type they are stored in; what it changes is measured (default: %(default)s)",
    )
    parser.add_argument(
        "--xla",
        action="store_true",
        help="let XLA compile the search: faster, but not for TensorFlow Serving",
    )
    parser.add_argument(
        "--portable",
        action="store_true",
        help="insist on core operations: no tensorflow-text is needed; for models of bytes",
    )


def run(arguments):
    run_with_tensorflow(export, arguments)


def export(arguments):
    """Loads the run, exports it and says where it is."""
    from keras_transformer._utils.errors import named_file_errors
    from keras_transformer.decoding import SearchSettings
    from keras_transformer.export import TextLimits, TrainedModel, export_model

    settings = {"version": arguments.version, "weights": arguments.weights}
    try:
        searching = search_settings(arguments)
        SearchSettings(**searching)  # mistakes are told before anything is loaded
        if arguments.max_source_tokens is not None:
            settings["limits"] = TextLimits(tokens=arguments.max_source_tokens)
        if arguments.version is not None:
            require_integer("version", arguments.version, 0)
    except ValueError as error:
        raise UserError(str(error)) from error
    trained = TrainedModel.load(arguments.run_directory)
    if searching:
        try:
            settings["search"] = trained.search_settings(**searching)
        except ValueError as error:  # what is given and what the recipe says do not go together
            raise UserError(f"With the search of the run's recipe: {error}") from error
    with named_file_errors(arguments.to, remedy="Put that right, and export again."):
        path = export_model(
            trained, arguments.to, **settings, xla=arguments.xla, portable=arguments.portable
        )
    print(f"Exported: {path}")
    print(f"Next: keras-transformer verify {path}")
    print(f"      keras-transformer translate {path} < FILE")
