"""Translates lines with a trained model: a run directory, or an export in saved_models.

  keras-transformer translate saved_models/dates
  echo "12. Mai 2021" | keras-transformer translate saved_models/dates
  keras-transformer translate runs/dates --input test.de --output test.en
  keras-transformer translate runs/dates --input test.de --beams 8 --n-best 3 --scores
  keras-transformer translate saved_models/stories --temperature 0.8 --seed 7
  keras-transformer translate saved_models/dates --input test.de --attention attention.html

Lines are UTF-8 text, plain or gzip. Line n of the output is the translation of line n of the input;
the translation of a blank line is blank. A language model continues each line. Each line is
answered when it arrives, so the command can be used from a terminal or another program. For a model
that reads trees, standard input is CoNLL-U, as parsers write it, with a blank line after each
sentence; so is any file whose name ends with .conllu, for every model: then line n of the output
belongs to sentence n.

Formats: `text` is one translation a line. `tsv` has the columns line number, score (with --scores)
and translation; with --n-best there is a row for each translation, best first. `jsonl` is one JSON
object a line, with line, source and translations. A score is a length-normalized log-probability.
"""

import argparse
import json
import os
from typing import TYPE_CHECKING

from keras_transformer._utils.checks import require_temperature
from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.cli import shared

if TYPE_CHECKING:
    from keras_transformer.inference import Translation

SUMMARY = "translate lines with a trained model"

FORMATS = ("text", "tsv", "jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--input", metavar="FILE", help="default: standard input")
    add("--output", metavar="FILE", help="default: standard output")
    add("--format", choices=FORMATS, help="default: text; tsv with --n-best or --scores")
    best = "translations of a line (default: 1)"
    add("--n-best", type=int, metavar="N", default=1, help=best)
    add("--scores", action="store_true", help="write the score of each translation")
    picture = "draw the attention: of the first sentence in FILE.png, of up to 50 in FILE.html"
    add("--attention", metavar="FILE", help=picture)
    shared.add_model_arguments(parser)
    shared.add_search_options(parser)
    add = parser.add_argument_group("sampling instead of search").add_argument
    temperature = "1 samples from the model's probabilities; lower values, from 0.0001, prefer "
    temperature += "likely tokens, and higher ones, to 10000, do not; 0 takes the most likely token"
    add("--temperature", type=float, metavar="T", help=temperature)
    add("--seed", type=int, metavar="S", help="the same seed gives the same texts (default: 0)")


def run(arguments: argparse.Namespace) -> None:
    require_sensible(arguments)
    shared.run_with_tensorflow(translate, arguments)


def require_sensible(arguments: argparse.Namespace) -> None:
    """Raises a `UserError` for mistakes that can be found without TensorFlow."""
    shared.require_whole_numbers(arguments, 1, "n_best", "batch_size")
    shared.require_whole_numbers(arguments, 0, "seed")
    if arguments.seed is not None and arguments.seed >= 2**31:
        raise ArgumentError("--seed", "below 2**31", arguments.seed)
    if arguments.temperature is None and arguments.seed is not None:
        raise UserError("--seed is for sampling.", fix="Give a --temperature, too.")
    if arguments.temperature is not None:
        require_temperature("--temperature", arguments.temperature)
        if arguments.n_best > 1 or arguments.beams or arguments.coverage_penalty:
            raise UserError(
                "--temperature samples one text.",
                fix="Leave out --n-best, --beams and --coverage-penalty, which belong to the "
                "search.",
            )
    if arguments.format == "text" and (arguments.scores or arguments.n_best > 1):
        raise UserError(
            "--format text has one translation a line.",
            fix="Use tsv or jsonl with --scores or --n-best.",
        )


def translate(arguments: argparse.Namespace) -> None:
    """Translates the input, writes the output, and draws the attention if asked."""
    from keras_transformer.inference import LineReader, translate_lines
    from keras_transformer.inference.attention_maps import most_sentences, save_attention
    from keras_transformer.inference.readers import as_sources, count_sources
    from keras_transformer.inference.translation import WINDOW

    output, attention, wanted = arguments.output, arguments.attention, 0
    if output is not None:
        output = shared.require_output_file("--output", output, [arguments.input])
    if attention is not None:
        wanted = most_sentences(attention)
        attention = shared.require_output_file("--attention", attention, [arguments.input, output])
    drawn = []
    with LineReader(arguments.input, arguments.encoding_errors) as lines:
        total = None
        if arguments.input is not None and os.path.isfile(arguments.input):
            # Mistakes in any line are reported before the first line is translated.
            total = count_sources(arguments.input, arguments.encoding_errors)
        text_model = shared.open_model(arguments)
        sources = as_sources(lines, arguments.input, text_model)
        # Samples depend on the grouping of lines, so lines are answered one by one only on a
        # terminal.
        is_talk = arguments.temperature is not None and lines.is_terminal
        translations = translate_lines(
            text_model,
            sources,
            n_best=arguments.n_best,
            temperature=arguments.temperature,
            seed=arguments.seed or 0,
            window=arguments.batch_size or (1 if is_talk else WINDOW),
        )
        bar = shared.line_progress("Translating", total, output)
        is_json = arguments.format == "jsonl"
        with shared.open_output(output, is_json=is_json) as write, bar as advance:
            for number, translation in enumerate(translations, start=1):
                write(format_translation(number, translation, arguments))
                advance(1)
                if len(drawn) < wanted and translation.text.strip():
                    drawn.append(translation)
        shared.note_replaced(lines)
    if attention is not None and drawn:
        save_attention(attention, text_model, drawn)
    elif attention is not None:
        shared.tell(shown(f"{attention}: not drawn, because all translations are blank."))


def format_translation(
    number: int, translation: "Translation", arguments: argparse.Namespace
) -> str:
    """Returns the output for one line, its end included."""
    scores = [round(score, 6) for score in translation.scores]
    rows = list(zip(scores, translation.texts, strict=True))
    if arguments.format == "jsonl":
        translations = [
            {"text": text, "score": score} if arguments.scores else {"text": text}
            for score, text in rows
        ]
        content = {"line": number, "source": translation.source, "translations": translations}
        return json.dumps(content, ensure_ascii=False) + "\n"
    if arguments.format == "tsv" or arguments.scores or arguments.n_best > 1:
        columns = [
            [str(number), *([f"{score:.6f}"] if arguments.scores else []), shared.one_line(text)]
            for score, text in rows
        ]
        return "".join("\t".join(row) + "\n" for row in columns)
    return shared.one_line(translation.text) + "\n"
