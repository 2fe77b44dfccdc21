"""Scores given translations: log-probability and perplexity of each line.

  keras-transformer score runs/dates --source test.de --target test.en
  keras-transformer score saved_models/dates --source test.de --target test.en --format jsonl
  keras-transformer score saved_models/story --target stories.txt

Line n of the source belongs to line n of the target; both are UTF-8 text, plain or gzip. A source
whose name ends with .conllu is read sentence by sentence, and a model that reads trees gets the
trees. For a language model, the source is the beginning of each text, and may be left out. Each
line gets its log-probability (natural logarithm, the sum over its tokens), its number of tokens
(the end token included), and its perplexity: exp of minus the log-probability divided by the number
of tokens. The result of all lines together is printed on standard error.
"""

import argparse
import contextlib
import itertools
import json
import math
import sys
from typing import TYPE_CHECKING

from keras_transformer._utils.errors import UserError
from keras_transformer.cli import shared

if TYPE_CHECKING:
    from keras_transformer.inference import Score

SUMMARY = "log-probability and perplexity of given translations"

FORMATS = ("tsv", "jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", metavar="FILE", help="may be left out for a language model")
    add("--target", metavar="FILE", required=True, help="texts to score")
    add("--format", choices=FORMATS, default=FORMATS[0], help="default: %(default)s")
    shared.add_model_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    shared.require_whole_numbers(arguments, 1, "batch_size")
    shared.run_with_tensorflow(score, arguments)


def score(arguments: argparse.Namespace) -> None:
    """Scores all lines, prints a row for each, and reports the score of all."""
    from keras_transformer.inference import LineReader, Score, score_pairs
    from keras_transformer.inference.readers import as_sources, require_parallel
    from keras_transformer.inference.translation import WINDOW

    files = [path for path in (arguments.source, arguments.target) if path is not None]
    total = require_parallel(files, arguments.encoding_errors)
    text_model = shared.open_model(arguments)
    text_model.require("score")
    if arguments.source is None and not text_model.is_language_model:
        raise UserError(
            f"a {text_model.kind} scores a target with its source.",
            where=text_model.name,
            fix="Give it with --source.",
        )
    everything = Score(0.0, 0)
    with contextlib.ExitStack() as stack:
        readers = [LineReader(path, arguments.encoding_errors) for path in files]
        for lines in readers:
            stack.enter_context(lines)
        sources, targets = itertools.repeat("", total), readers[-1]
        if arguments.source is not None:
            sources = as_sources(readers[0], arguments.source, text_model)
        scores = score_pairs(text_model, sources, targets, arguments.batch_size or WINDOW)
        with (
            shared.open_output(None) as write,
            shared.line_progress("Scoring", total, None) as advance,
        ):
            for number, one in enumerate(scores, start=1):
                write(format_score(number, one, arguments.format))
                advance(1)
                everything += one
        for lines in readers:
            shared.note_replaced(lines)
    print(
        f"{total:,} lines: log-probability {everything.log_probability:,.4f}, "
        f"{everything.tokens:,} tokens, perplexity {everything.perplexity:,.4f}",
        file=sys.stderr,
    )


def format_score(number: int, score: "Score", form: str) -> str:
    """Returns the row of a line, its end included."""
    perplexity = score.perplexity
    if form == "tsv":
        return f"{number}\t{score.log_probability:.6f}\t{score.tokens}\t{perplexity:.6f}\n"
    content = {
        "line": number,
        "log_probability": round(score.log_probability, 6),
        "tokens": score.tokens,
        # JSON has no infinity.
        "perplexity": round(perplexity, 6) if math.isfinite(perplexity) else None,
    }
    return json.dumps(content) + "\n"
