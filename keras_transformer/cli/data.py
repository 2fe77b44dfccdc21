"""Reports on a corpus before training: counts, lengths, vocabulary, padding, odd lines.

  keras-transformer data train.en train.de --validation val.en val.de
  keras-transformer data train.conllu train.de
  keras-transformer data pairs.tsv.gz
  keras-transformer data pairs.jsonl --keys source=en,target=de
  keras-transformer data reviews.tsv --columns text,label
  keras-transformer data stories.txt --format blank-line-documents
  keras-transformer data --dates

The report is printed and saved as report.json and report.png. The format of the files is guessed:
.tsv and .tab are tab-separated values; .jsonl and .ndjson are JSON lines; of two files, a first one
that ends with .conllu has parsed sources; two other files are parallel, source and target; one
other file has one document per line. `--list-formats` lists all formats. Files may be compressed
with gzip, and each path may be a pattern in quotes, such as 'parts/*.tsv'.
"""

import argparse
import contextlib
import logging
import sys
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import require_choice, require_integer
from keras_transformer._utils.console import print_rendered, shown
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.shared import run_with_tensorflow

if TYPE_CHECKING:
    from keras_transformer.data import Corpus

SUMMARY = "report on a corpus before training"

#: Options of formats that have an option of the command; others are given by `--format-option`.
OPTIONS_WITH_FLAGS = ("columns", "has_header", "keys")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    add("files", nargs="*", metavar="FILES", help="the training corpus")
    add("--dates", action="store_true", help="report on the built-in quick-start corpus")
    add("--validation", nargs="+", metavar="FILE", help="validation corpus, in the same format")
    add("--list-formats", action="store_true", help="list the formats of corpora and exit")
    reading = parser.add_argument_group("reading the files").add_argument
    reading("--format", metavar="NAME", help="format of the files (default: guessed)")
    reading("--columns", metavar="NAMES", help="columns of a TSV file (default: source,target)")
    reading("--has-header", action="store_true", help="the first line of a TSV file is a header")
    reading("--keys", metavar="COLUMN=KEY,...", help="keys of the texts in JSON lines")
    option = "another option of the format, with a value as in a recipe; may be repeated"
    reading("--format-option", action="append", default=[], metavar="NAME=VALUE", help=option)
    bad = "what to do with lines that break the format (default: %(default)s)"
    reading("--on-bad-line", choices=("error", "skip"), default="error", help=bad)
    encoding = "what to do with bytes that are not UTF-8 (default: %(default)s)"
    reading("--encoding-errors", choices=("error", "replace"), default="error", help=encoding)
    batching = parser.add_argument_group("vocabulary and batches").add_argument
    tokenizer = "sentencepiece, wordpiece, bytes, or the directory of a saved tokenizer "
    tokenizer += "(default: %(default)s)"
    batching("--tokenizer", metavar="KIND", default="sentencepiece", help=tokenizer)
    size = "number of ids to learn (default: 8000)"
    batching("--vocabulary-size", type=int, metavar="V", help=size)
    tokens = "maximum tokens per batch, padding included (default: %(default)s)"
    batching("--tokens", type=int, metavar="N", default=4096, help=tokens)
    length = "maximum tokens per sequence, end token included (default: %(default)s)"
    batching("--max-length", type=int, metavar="N", default=256, help=length)
    output = "directory of report.json and report.png (default: ./%(default)s)"
    add("--output", metavar="DIR", default="data_report", help=output)
    add("--cache", metavar="DIR", help="directory that keeps the tokenized corpus (default: none)")


def run(arguments: argparse.Namespace) -> None:
    """Runs the command."""
    if arguments.list_formats:
        print(list_formats())
        return
    require_consistent(arguments)
    # Otherwise matplotlib logs that it has no directory of its own, or that it searches for fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    run_with_tensorflow(make_report, arguments)


def list_formats() -> str:
    """Returns a table of the registered formats and their options."""
    from keras_transformer.data.corpora import FORMATS

    lines = []
    for name, kind in sorted(FORMATS.items()):
        extensions = f" ({', '.join(kind.extensions)})" if kind.extensions else ""
        lines.append(f"{name:<22}{kind.title}{extensions}")
        for option, meaning in kind.options.items():
            flag = f"--{option.replace('_', '-')}"
            if option not in OPTIONS_WITH_FLAGS:
                flag = f"--format-option {option}=VALUE"
            lines.append(f"{'':<22}  {flag}: {meaning}")
    return "\n".join(lines)


def require_consistent(arguments: argparse.Namespace) -> None:
    """Raises a `UserError` for mistakes that can be found before TensorFlow is imported."""
    if arguments.dates == bool(arguments.files):
        raise UserError(
            "Name the files of a corpus (before --validation, which takes all files after it), or "
            "use --dates for the built-in corpus."
        )
    of_files = ("validation", "format", "format_option", *OPTIONS_WITH_FLAGS)
    if arguments.dates and any(getattr(arguments, name) for name in of_files):
        raise UserError(
            "--dates is a whole corpus with validation data: leave out the options for files."
        )
    if arguments.format is not None:
        from keras_transformer.data.corpora import FORMATS

        require_choice("--format", arguments.format, FORMATS)
    parse_format_options(arguments.format_option)
    require_integer("--tokens", arguments.tokens, minimum=1)
    require_integer("--max-length", arguments.max_length, minimum=2)
    if arguments.vocabulary_size is not None:
        require_integer("--vocabulary-size", arguments.vocabulary_size, minimum=5)


def make_report(arguments: argparse.Namespace) -> None:
    """Makes the report, saves it and prints it."""
    from keras_transformer.analysis.data_report import (
        make_data_report,
        print_data_report,
        require_report_directory,
        save_data_report,
    )

    output = require_report_directory(arguments.output)
    corpus, validation = open_corpora(arguments)
    kept = arguments.cache and contextlib.nullcontext(arguments.cache)
    with kept or tempfile.TemporaryDirectory() as directory:
        report = make_data_report(
            corpus,
            directory,
            validation=validation,
            tokenizer=arguments.tokenizer,
            vocabulary_size=arguments.vocabulary_size,
            tokens=arguments.tokens,
            max_length=arguments.max_length,
            progress=print_stage,
        )
    paths = save_data_report(report, output)
    print_rendered(lambda console: print_data_report(report, console))
    print(f"\nSaved: {shown(str(paths[0]))} and {shown(str(paths[1]))}")
    print(next_step(report))


def open_corpora(arguments: argparse.Namespace) -> "tuple[Corpus, Corpus | None]":
    """Returns the training corpus, and the validation corpus or None."""
    from keras_transformer.data import open_builtin, open_corpus

    if arguments.dates:
        dates = open_builtin("dates")
        return dates.train, dates.validation
    options = parse_format_options(arguments.format_option)
    settings: dict[str, Any] = {
        "format": arguments.format,
        "columns": arguments.columns and tuple(arguments.columns.split(",")),
        "has_header": arguments.has_header,
        "keys": arguments.keys and parse_keys(arguments.keys),
        "on_bad_line": arguments.on_bad_line,
        "encoding_errors": arguments.encoding_errors,
        **options,
    }
    try:
        corpus = open_corpus(arguments.files, **settings)
    except UserError as error:
        raise error.renamed({name: f"--format-option {name}" for name in options}) from error
    if arguments.validation is None:
        return corpus, None
    labels = getattr(corpus, "labels", None)
    return corpus, open_corpus(arguments.validation, **settings, labels=labels)


def parse_keys(text: str) -> dict[str, str]:
    """Returns the mapping that a string such as `source=en,target=de` describes."""
    parts = (part.partition("=") for part in text.split(","))
    keys = {column: key for column, _, key in parts}
    if not all(keys) or not all(keys.values()):
        raise UserError(
            f"must look like source=en,target=de or text=body; got {text!r}.", argument="--keys"
        )
    return keys


def parse_format_options(texts: Iterable[str]) -> dict[str, Any]:
    """Returns the options in texts such as `sheet=2`; the values are read as in a recipe."""
    from keras_transformer.data.corpora import FORMATS
    from keras_transformer.trainer.recipe_file import YamlError, read_yaml

    known = {option for kind in FORMATS.values() for option in kind.options}
    options = {}
    for text in texts:
        name, _, value = text.partition("=")
        require_choice("--format-option", name, known)
        if not value:
            raise UserError("must look like NAME=VALUE.", where=f"--format-option {text}")
        try:
            options[name] = read_yaml(value)[0]
        except YamlError as error:
            raise error.at(f"--format-option {text}") from error
    return options


def print_stage(stage: str) -> None:
    """Prints the name of a stage if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"{shown(stage)} …", file=sys.stderr)


def next_step(report: dict[str, Any]) -> str:
    """Returns a recommendation for the user, in one line."""
    if report["overlap"]:
        return "Next: remove the overlap from the training or the validation files, and run again."
    parts = ["the warnings"] if report["warnings"] else []
    parts += ["the odd lines"] if any(odd["lines"] for odd in report["lines"]["odd"]) else []
    return f"Next: look at {' and '.join(parts) or 'the picture'}, then train."
