"""Evaluates a model's translations: BLEU, chrF, exact matches, the worst sentences.

  keras-transformer evaluate runs/dates --source test.de --reference test.en
  keras-transformer evaluate saved_models/dates --source test.de --reference test.en --worst 3
  keras-transformer evaluate saved_models/dates --source test.de --reference test.en --json
  keras-transformer evaluate runs/dates --source test.de --reference test.en --output answers.en

Line n of the source belongs to line n of the reference; both are raw UTF-8 text, plain or gzip. A
source whose name ends with .conllu is read sentence by sentence, and a model that reads trees gets
the trees. BLEU and chrF are sacrebleu's; publish their signatures with them. An exact match is a
translation that equals its reference, apart from white space at the ends.
"""

import argparse
import json
from typing import TYPE_CHECKING, Any

from keras_transformer.cli.text_input import (
    add_line_arguments,
    add_model_argument,
    add_search_options,
    note_replaced,
    open_model,
    require_whole_numbers,
    run_with_tensorflow,
    search_settings,
)
from keras_transformer.metrics.bleu import BLEU_TOKENS

if TYPE_CHECKING:
    from keras_transformer.inference import Evaluation, TextModel

SUMMARY = "measure the quality of a model's translations"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    parser.add_argument("--source", metavar="FILE", required=True, help="texts to translate")
    parser.add_argument(
        "--reference", metavar="FILE", required=True, help="their translations by people"
    )
    parser.add_argument(
        "--worst",
        type=int,
        metavar="N",
        default=5,
        help="number of sentences with the lowest chrF to show (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")
    parser.add_argument("--output", metavar="FILE", help="also write the translations here")
    parser.add_argument(
        "--bleu-tokens",
        choices=BLEU_TOKENS,
        help="tokenization of BLEU; none is for texts that are tokenized already (default: as in "
        "the recipe of the training, else 13a)",
    )
    add_line_arguments(parser)
    add_search_options(parser)


def run(arguments: argparse.Namespace) -> None:
    require_whole_numbers(arguments, 0, "worst")
    require_whole_numbers(arguments, 1, "batch_size")
    run_with_tensorflow(evaluate, arguments)


def evaluate(arguments: argparse.Namespace) -> None:
    """Translates the source, compares it with the reference and prints the result."""
    from keras_transformer._utils.console import print_rendered
    from keras_transformer.cli.text_output import one_line, open_output, require_output_file
    from keras_transformer.inference import evaluate_translations
    from keras_transformer.inference.readers import require_parallel

    files = [arguments.source, arguments.reference]
    output = arguments.output and require_output_file("--output", arguments.output, files)
    require_parallel(files, arguments.encoding_errors)
    text_model = open_model(arguments.model, **search_settings(arguments))
    sources, references = read_both(
        arguments.source, arguments.reference, arguments.encoding_errors, text_model
    )
    hypotheses = translate_all(text_model, sources, arguments.batch_size)
    if output:
        with open_output(output) as write:
            write("".join(one_line(text) + "\n" for text in hypotheses))
    bleu_tokens = arguments.bleu_tokens or bleu_tokens_of(text_model)
    evaluation = evaluate_translations(
        sources, hypotheses, references, arguments.worst, bleu_tokens
    )
    if arguments.json:
        content = {"model": text_model.name, **evaluation.to_dictionary()}
        print(json.dumps(content, indent=2))
    else:
        print_rendered(lambda console: draw_evaluation(console, evaluation))


def bleu_tokens_of(text_model: "TextModel") -> str:
    """Returns the tokenization of BLEU in the recipe of a model, or sacrebleu's default."""
    evaluation = (text_model.recipe or {}).get("evaluation")
    known = evaluation.get("bleu_tokens") if isinstance(evaluation, dict) else None
    return known if known in BLEU_TOKENS else "13a"


def read_both(
    source: str, reference: str, encoding_errors: str, text_model: "TextModel"
) -> list[list[str]]:
    """Returns the source texts for the model, and the lines of the reference."""
    from keras_transformer.inference.readers import LineReader, as_sources

    texts = []
    for path in (source, reference):
        with LineReader(path, encoding_errors) as lines:
            is_source = path == source
            texts.append(list(as_sources(lines, path, text_model) if is_source else lines))
            note_replaced(lines)
    return texts


def translate_all(text_model: "TextModel", sources: list[str], batch_size: int | None) -> list[str]:
    """Returns the best translation of each source, with a progress bar."""
    from keras_transformer.cli.text_input import line_progress
    from keras_transformer.inference.translation import WINDOW, translate_lines

    hypotheses = []
    with line_progress("Translating", len(sources), output=None) as advance:
        for translation in translate_lines(text_model, sources, window=batch_size or WINDOW):
            hypotheses.append(translation.text)
            advance(1)
    return hypotheses


def draw_evaluation(console: Any, evaluation: "Evaluation") -> None:
    """Prints a table of the metrics and the worst sentences on a rich console."""
    from rich.text import Text

    from keras_transformer._utils.console import is_plain, print_table, shown
    from keras_transformer.metrics import TEXT_METRICS

    rows = [("sentences", f"{evaluation.sentences:,}", "")]
    for name, value in evaluation.metrics.items():
        metric = TEXT_METRICS[name]
        text = metric.value_format.format(value)
        rows.append((metric.title, text, evaluation.signatures.get(name, "")))
    print_table(console, ("", "value", "measured as"), rows, right=[1])
    for sentence in evaluation.worst:
        console.print(f"\nline {sentence.line:,}, chrF {sentence.chrf:.1f}")
        for name in ("source", "reference", "hypothesis"):
            text = shown(getattr(sentence, name))
            console.print(Text(f"  {name + ':':<12}{text}"), soft_wrap=is_plain(console))
