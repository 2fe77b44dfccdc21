"""Reports on a corpus before training on it: counts, lengths, vocabulary, padding, odd lines.

  keras-transformer data train.en train.de --validation val.en val.de
  keras-transformer data train.conllu train.de
  keras-transformer data pairs.tsv.gz
  keras-transformer data pairs.jsonl --keys source=en,target=de
  keras-transformer data reviews.tsv --columns text,label
  keras-transformer data stories.txt --kind blank-line-documents
  keras-transformer data --dates

The report is printed, and saved as report.json and report.png. What the files hold is guessed:
.tsv and .tab are tab-separated; .jsonl and .ndjson are JSON lines; of two files, the first of which
is .conllu, that is the parsed source; two other files are parallel, source and target; one other
file has a document on each line. Each may be gzipped, and each may be a pattern in quotes, such as
'parts/*.tsv'.
"""

import contextlib
import logging
import sys
import tempfile

from keras_transformer._utils.checks import require_integer
from keras_transformer._utils.errors import UserError

SUMMARY = "report on a corpus before training on it"

KINDS = ("parallel", "conllu", "tsv", "json-lines", "line-documents", "blank-line-documents")

# What the package's messages tell people to write in Python, as options.
_IN_PYTHON = {
    'on_bad_line="skip"': "--on-bad-line skip",
    'encoding_errors="replace"': "--encoding-errors replace",
    "has_header=True": "--has-header",
}


def add_arguments(parser):
    parser.add_argument("files", nargs="*", metavar="FILES", help="the training corpus")
    parser.add_argument(
        "--dates", action="store_true", help="report on the built-in quick-start corpus"
    )
    parser.add_argument(
        "--validation", nargs="+", metavar="FILE", help="the validation corpus, of the same kind"
    )
    reading = parser.add_argument_group("reading the files")
    reading.add_argument("--kind", choices=KINDS, help="what the files hold (default: guessed)")
    reading.add_argument(
        "--columns", metavar="NAMES", help="a TSV file's columns (default: source,target)"
    )
    reading.add_argument(
        "--has-header", action="store_true", help="the first line of a TSV file holds names"
    )
    reading.add_argument(
        "--keys", metavar="COLUMN=KEY,...", help="the keys of the texts in JSON lines"
    )
    reading.add_argument(
        "--on-bad-line", choices=("error", "skip"), default="error", help="default: %(default)s"
    )
    reading.add_argument(
        "--encoding-errors",
        choices=("error", "replace"),
        default="error",
        help="what to do with bytes that are not UTF-8 (default: %(default)s)",
    )
    batching = parser.add_argument_group("vocabulary and batches")
    batching.add_argument(
        "--tokenizer",
        metavar="KIND",
        default="sentencepiece",
        help="sentencepiece, wordpiece, bytes, or the directory of a saved tokenizer "
        "(default: %(default)s)",
    )
    batching.add_argument(
        "--vocabulary-size", type=int, metavar="V", help="ids to learn (default: 8000)"
    )
    batching.add_argument(
        "--tokens",
        type=int,
        metavar="N",
        default=4096,
        help="rows times longest side of a batch at most (default: %(default)s)",
    )
    batching.add_argument(
        "--max-length",
        type=int,
        metavar="N",
        default=256,
        help="tokens of the longest sequence, END included (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        default="data_report",
        help="where report.json and report.png go (default: ./%(default)s)",
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="keep the tokenized corpus here (default: nowhere)"
    )


def run(arguments):
    require_sensible(arguments)
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    # Otherwise it speaks up when it has no directory of its own, or looks for fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        report_on(arguments)
    except UserError as error:
        raise UserError(with_options(str(error), arguments)) from error


def require_sensible(arguments):
    """Raises a `UserError` for what can be told before TensorFlow is there."""
    if arguments.dates == bool(arguments.files):
        raise UserError(
            "Name the files of a corpus (before --validation, which takes all that follow it), or "
            "--dates for the built-in one."
        )
    about_files = ("validation", "kind", "columns", "has_header", "keys")
    if arguments.dates and any(getattr(arguments, name) for name in about_files):
        raise UserError(
            "--dates is a whole corpus, validation included: leave out what is about files."
        )
    smallest = {"--tokens": 1, "--max-length": 2, "--vocabulary-size": 5}
    for option, minimum in smallest.items():
        value = getattr(arguments, option.strip("-").replace("-", "_"))
        if value is not None:
            try:
                require_integer(option, value, minimum)
            except ValueError as error:
                raise UserError(str(error)) from error


def report_on(arguments):
    """Makes the report, saves it and prints it."""
    from rich.console import Console

    from keras_transformer.analysis.data_report.open_corpus import (
        require_report_directory,
        save_data_report,
    )
    from keras_transformer.analysis.data_report.report import make_data_report
    from keras_transformer.analysis.data_report.tables import print_data_report

    output = require_report_directory(arguments.output)
    corpus, validation = open_corpora(arguments)
    with cache_directory(arguments.cache) as directory:
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
    report["warnings"] = [with_options(text, arguments) for text in report["warnings"]]
    paths = save_data_report(report, output)
    # A terminal of another encoding gets question marks for what it cannot show.
    sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    # Printed in one piece by Python itself: at a closed pipe, rich would end the process with 1.
    with console.capture() as capture:
        print_data_report(report, console)
    print(capture.get())
    print(f"Saved: {paths[0]} and {paths[1]}")
    print(next_step(report))


def open_corpora(arguments):
    """Returns the training corpus, and the validation corpus or None."""
    from keras_transformer.analysis.data_report.open_corpus import open_corpus
    from keras_transformer.data import make_dates

    if arguments.dates:
        dates = make_dates()
        return dates.train, dates.validation
    settings = {
        "kind": arguments.kind,
        "columns": arguments.columns and tuple(arguments.columns.split(",")),
        "has_header": arguments.has_header,
        "keys": arguments.keys and parse_keys(arguments.keys),
        "on_bad_line": arguments.on_bad_line,
        "encoding_errors": arguments.encoding_errors,
    }
    corpus = open_corpus(arguments.files, **settings)
    if arguments.validation is None:
        return corpus, None
    labels = corpus.labels if "label" in corpus.columns else None
    return corpus, open_corpus(arguments.validation, **settings, labels=labels)


def parse_keys(text):
    """Returns the mapping that `source=en,target=de` means.

    >>> parse_keys("source=en,target=de")
    {'source': 'en', 'target': 'de'}
    """
    keys = dict(part.partition("=")[::2] for part in text.split(","))
    if not all(keys) or not all(keys.values()):
        raise UserError(f"--keys must look like source=en,target=de or text=body; got {text!r}.")
    return keys


def cache_directory(given):
    """Returns a context that yields the directory for token caches."""
    if given is not None:
        return contextlib.nullcontext(given)
    return tempfile.TemporaryDirectory(prefix="keras_transformer_")


def print_stage(stage):
    """Tells a person who waits what is being done; a file or a pipe is not told."""
    if sys.stderr.isatty():
        print(f"{stage} …", file=sys.stderr)


def with_options(message, arguments):
    """Returns a message of the package with arguments as the command line calls them.

    >>> import argparse
    >>> with_options("Raise `max_length`.", argparse.Namespace(max_length=256))
    'Raise --max-length.'
    """
    for python, option in _IN_PYTHON.items():
        message = message.replace(python, option)
    for name in vars(arguments):
        message = message.replace(f"`{name}`", "--" + name.replace("_", "-"))
    return message


def next_step(report):
    """Returns what the user can do now, in one line."""
    if report["overlap"]:
        return "Next: take the overlap out of the training or the validation files, and run again."
    places = ["the warnings"] if report["warnings"] else []
    places += ["the odd lines"] if any(odd["lines"] for odd in report["lines"]["odd"]) else []
    return f"Next: look at {' and '.join(places) or 'the picture'}, then train."
