"""Evaluates a model's translations: BLEU, chrF, exact matches, the worst sentences.

  keras-transformer evaluate runs/dates --source test.de --reference test.en
  keras-transformer evaluate saved_models/dates --source test.de --reference test.en --worst 3
  keras-transformer evaluate saved_models/dates --source test.de --reference test.en --json
  keras-transformer evaluate runs/dates --source test.de --reference test.en --output answers.en
  keras-transformer evaluate runs/dates --source test.de --reference test.en --metrics bleu chrf

Line n of the source belongs to line n of the reference; both are raw UTF-8 text, plain or gzip. A
source whose name ends with .conllu is read sentence by sentence, and a model that reads trees gets
the trees. BLEU and chrF are sacrebleu's; publish their signatures with them. An exact match is a
translation that equals its reference, apart from white space at the ends.
"""

import argparse
import json
from typing import TYPE_CHECKING, Any

from keras_transformer.cli import shared
from keras_transformer.metrics import TEXT_METRICS
from keras_transformer.metrics.bleu import BLEU_TOKENS

if TYPE_CHECKING:
    from keras_transformer.inference import Evaluation, TextModel

SUMMARY = "measure the quality of a model's translations"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", metavar="FILE", required=True, help="texts to translate")
    add("--reference", metavar="FILE", required=True, help="their translations by people")
    worst = "number of sentences with the lowest chrF to show (default: %(default)s)"
    add("--worst", type=int, metavar="N", default=5, help=worst)
    add("--json", action="store_true", help="print the result as a JSON object")
    add("--output", metavar="FILE", help="also write the translations here")
    names = "text metrics to compute (default: all that are registered)"
    add("--metrics", nargs="+", choices=sorted(TEXT_METRICS), metavar="NAME", help=names)
    tokens = "tokenization of BLEU; none is for texts that are tokenized already (default: as in "
    tokens += "the recipe of the training, else 13a)"
    add("--bleu-tokens", choices=BLEU_TOKENS, help=tokens)
    shared.add_model_arguments(parser)
    shared.add_search_options(parser)


def run(arguments: argparse.Namespace) -> None:
    shared.require_whole_numbers(arguments, 0, "worst")
    shared.require_whole_numbers(arguments, 1, "batch_size")
    shared.run_with_tensorflow(evaluate, arguments)


def evaluate(arguments: argparse.Namespace) -> None:
    """Translates the source, compares it with the reference and prints the result."""
    from keras_transformer._utils.console import print_rendered
    from keras_transformer.inference import evaluate_translations, translate_lines
    from keras_transformer.inference.readers import require_parallel
    from keras_transformer.inference.translation import WINDOW

    files = [arguments.source, arguments.reference]
    output = arguments.output and shared.require_output_file("--output", arguments.output, files)
    require_parallel(files, arguments.encoding_errors)
    text_model = shared.open_model(arguments)
    sources, references = read_both(files, arguments.encoding_errors, text_model)
    hypotheses = []
    with shared.line_progress("Translating", len(sources), output=None) as advance:
        window = arguments.batch_size or WINDOW
        for translation in translate_lines(text_model, sources, window=window):
            hypotheses.append(translation.text)
            advance(1)
    if output:
        with shared.open_output(output) as write:
            write("".join(shared.one_line(text) + "\n" for text in hypotheses))
    bleu_tokens = arguments.bleu_tokens or bleu_tokens_of(text_model)
    evaluation = evaluate_translations(
        sources, hypotheses, references, arguments.worst, bleu_tokens, arguments.metrics
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


def read_both(files: list[str], encoding_errors: str, text_model: "TextModel") -> list[list[str]]:
    """Returns the texts of the source file for the model, and the lines of the reference file."""
    from keras_transformer.inference.readers import LineReader, as_sources

    texts = []
    for path in files:
        with LineReader(path, encoding_errors) as lines:
            is_source = not texts
            texts.append(list(as_sources(lines, path, text_model) if is_source else lines))
            shared.note_replaced(lines)
    return texts


def draw_evaluation(console: Any, evaluation: "Evaluation") -> None:
    """Prints a table of the metrics and the worst sentences on a rich console."""
    from rich.text import Text

    from keras_transformer._utils.console import is_plain, print_table, shown

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
