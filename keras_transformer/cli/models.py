"""Lists the presets of a model, with their sizes and the number of their parameters.

The Transformer's presets `base` and `big` are those of "Attention Is All You Need"; with their
vocabulary of 37,000 tokens, which is the default here, the paper counts 65 and 213 million
parameters.
"""

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.errors import UserError

SUMMARY = "list the presets and count their parameters"
MODELS = (
    "Transformer",
    "RecurrentSeq2Seq",
    "ConvolutionalSeq2Seq",
    "LanguageModel",
    "TextEncoder",
)


def add_arguments(parser):
    parser.add_argument(
        "model",
        nargs="?",
        choices=MODELS,
        default=MODELS[0],
        help=f"{', '.join(MODELS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=int,
        default=37_000,
        metavar="V",
        help="number of tokens (default: %(default)s)",
    )


def run(arguments):
    try:
        require_positive_integer("--vocabulary-size", arguments.vocabulary_size)
    except ValueError as error:
        raise UserError(str(error)) from error
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{arguments.model} with a vocabulary of {arguments.vocabulary_size:,}")
    table.add_column("preset")
    for heading in ("layers", "width", "feed-forward", "heads", "parameters"):
        table.add_column(heading, justify="right")
    for row in describe_presets(arguments.model, arguments.vocabulary_size):
        table.add_row(*(f"{value:,}" if isinstance(value, int) else value for value in row))
    Console().print(table)


def describe_presets(model, vocabulary_size):
    """Yields name, layers, width, feed-forward width, heads and parameters of each preset.

    What a model does not have is a dash.
    """
    from keras_transformer import models

    model_class = getattr(models, model)
    for name in model_class.config_class.presets:
        config = model_class.config_class.preset(name, vocabulary_size=vocabulary_size)
        layers = "+".join(str(getattr(config, field)) for field in config.depth_fields)
        sizes = (getattr(config, field, "-") for field in ("intermediate_dim", "num_heads"))
        yield name, layers, config.hidden_dim, *sizes, model_class(config).count_params()
