"""Lists the sizes of a model and the number of their parameters.

The Transformer's sizes `base` and `big` are those of "Attention Is All You Need"; with their
vocabulary of 37,000 tokens, which is the default here, the paper counts 65 and 213 million
parameters.
"""

import argparse
from collections.abc import Iterator

from keras_transformer._utils.checks import require_choice, require_positive_integer
from keras_transformer.cli.shared import run_with_tensorflow

SUMMARY = "list the sizes of models and count their parameters"

HEADINGS = ("size", "layers", "hidden dim", "intermediate dim", "heads", "parameters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    model = "class of models, such as LanguageModel or TextEncoder (default: %(default)s)"
    add("model", nargs="?", metavar="MODEL", default="Transformer", help=model)
    tokens = "number of tokens (default: %(default)s)"
    add("--vocabulary-size", type=int, default=37_000, metavar="V", help=tokens)


def run(arguments: argparse.Namespace) -> None:
    require_positive_integer("--vocabulary-size", arguments.vocabulary_size)
    run_with_tensorflow(list_sizes, arguments)


def list_sizes(arguments: argparse.Namespace) -> None:
    """Prints a table of the sizes of a class of models."""
    from keras_transformer._utils.console import print_rendered, print_table

    rows = [
        [f"{value:,}" if isinstance(value, int) else value for value in row]
        for row in describe_sizes(arguments.model, arguments.vocabulary_size)
    ]
    title = f"{arguments.model} with a vocabulary of {arguments.vocabulary_size:,}"
    numbers = range(1, len(HEADINGS))
    print_rendered(lambda each: print_table(each, HEADINGS, rows, title=title, right=numbers))


def describe_sizes(model: str, vocabulary_size: int) -> Iterator[tuple[str | int, ...]]:
    """Yields the cells of a row for each size; a setting that the model does not have is a dash."""
    from keras_transformer.models import MODELS

    model_class = MODELS[require_choice("MODEL", model, MODELS)]
    for name in model_class.config_class.sizes:
        built = model_class.from_size(name, vocabulary_size=vocabulary_size)
        config = built.config
        layers = "+".join(str(getattr(config, field)) for field in config.depth_fields)
        sizes = (getattr(config, field, "-") for field in ("intermediate_dim", "num_heads"))
        yield name, layers, config.hidden_dim, *sizes, built.count_params()
