"""What the verbs that give lines to a text model have in common."""

import sys

from keras_transformer.checks import require_integer
from keras_transformer.errors import UserError


def add_model_argument(parser):
    parser.add_argument("model", metavar="MODEL", help="a run directory or an export")


def add_line_arguments(parser):
    """Adds how lines are read, and how many the model is given."""
    lines = parser.add_argument_group("lines")
    lines.add_argument(
        "--encoding-errors",
        choices=("error", "replace"),
        default="error",
        help="what to do with bytes that are not UTF-8 (default: %(default)s)",
    )
    lines.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="lines given to the model at once, at most (default: 1024)",
    )


def require_whole_numbers(arguments, minimum, *names):
    """Raises a `UserError` if one of the arguments is given and below `minimum`."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None:
            try:
                require_integer("--" + name.replace("_", "-"), value, minimum)
            except ValueError as error:
                raise UserError(str(error)) from error


def run_with_tensorflow(function, arguments):
    """Calls `function(arguments)` when TensorFlow is there; messages call arguments options."""
    from keras_transformer.cli.quiet_start import import_tensorflow_quietly

    import_tensorflow_quietly()
    from keras_transformer.cli.data import with_options

    try:
        function(arguments)
    except UserError as error:
        raise UserError(with_options(str(error), arguments)) from error


def open_model(path, **search_settings):
    """Opens a text model; settings that its search cannot have are a mistake of the user's."""
    from keras_transformer.export import open_text_model

    if not search_settings:
        return open_text_model(path)
    try:
        return open_text_model(path, **search_settings)
    except ValueError as error:
        raise UserError(str(error)) from error


def note_replaced(lines):
    """Tells how much of what a `LineReader` has read was no UTF-8, if anything was."""
    if lines.replaced:
        print(
            f"{lines.name}: {lines.replaced:,} byte sequences were not UTF-8 and became U+FFFD.",
            file=sys.stderr,
        )
