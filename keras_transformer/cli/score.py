"""Tells how likely a model finds given translations: log-probability and perplexity of each line.

  keras-transformer score runs/dates --source test.de --target test.en
  keras-transformer score saved_models/dates --source test.de --target test.en --format jsonl
  keras-transformer score saved_models/story --target stories.txt

Line n of the source goes with line n of the target; both are UTF-8 text, plain or gzip. A source
whose name ends with .conllu is read sentence by sentence, and a model that reads trees sees them.
For a language model the source is what each text begins with, and may be left out. Each line gets
its log-probability (natural logarithm, the sum over its tokens), its tokens (the end included), and
its perplexity: exp of minus the log-probability by the number of tokens. That of all lines together
is told on standard error.
"""

import contextlib
import itertools
import json
import math
import sys

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_input import (
    add_line_arguments,
    add_model_argument,
    note_replaced,
    open_model,
    require_whole_numbers,
    run_with_tensorflow,
)

SUMMARY = "log-probability and perplexity of given translations"

FORMATS = ("tsv", "jsonl")


def add_arguments(parser):
    add_model_argument(parser)
    parser.add_argument("--source", metavar="FILE", help="may be left out for a language model")
    parser.add_argument("--target", metavar="FILE", required=True, help="what to score")
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="default: %(default)s"
    )
    add_line_arguments(parser)


def run(arguments):
    require_whole_numbers(arguments, 1, "batch_size")
    run_with_tensorflow(score, arguments)


def score(arguments):
    """Scores all lines, writes a row for each, and tells the score of all."""
    from keras_transformer.cli.text_input import line_progress
    from keras_transformer.cli.text_output import open_output
    from keras_transformer.inference.readers import LineReader, as_sources, require_parallel
    from keras_transformer.inference.scoring import Score, score_pairs
    from keras_transformer.inference.translation import WINDOW

    files = [path for path in (arguments.source, arguments.target) if path is not None]
    total = require_parallel(files, arguments.encoding_errors)
    text_model = open_model(arguments.model)
    if arguments.source is None and text_model.kind != "LanguageModel":
        raise UserError(
            f"{text_model.name}: is a {text_model.kind}, which scores a target with its source. "
            "Give it with --source."
        )
    everything = Score(0.0, 0)
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(LineReader(path, arguments.encoding_errors)) for path in files
        ]
        columns = [itertools.repeat("", total), *readers]
        if arguments.source:
            columns = [as_sources(readers[0], arguments.source, text_model), readers[1]]
        scores = score_pairs(text_model, *columns, window=arguments.batch_size or WINDOW)
        with open_output(None) as write, line_progress("Scoring", total, None) as advance:
            for number, one in enumerate(scores, start=1):
                write(format_score(number, one, arguments.format))
                advance(1)
                everything += one
        for lines in readers:
            note_replaced(lines)
    print(
        f"{total:,} lines: log-probability {everything.log_probability:,.4f}, "
        f"{everything.tokens:,} tokens, perplexity {everything.perplexity:,.4f}",
        file=sys.stderr,
    )


def format_score(number, score, form):
    """Returns the row of a line, its end included.

    >>> from keras_transformer.inference import Score
    >>> format_score(7, Score(0.0, 3), "tsv")
    '7\\t0.000000\\t3\\t1.000000\\n'
    """
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
