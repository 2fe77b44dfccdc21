"""Measures how good a model's translations are: BLEU, chrF, exact matches, the worst sentences.

  keras-transformer evaluate runs/dates --source test.de --reference test.en
  keras-transformer evaluate saved_models/dates --source test.de --reference test.en --worst 3
  keras-transformer evaluate saved_models/dates --source test.de --reference test.en --json
  keras-transformer evaluate runs/dates --source test.de --reference test.en --output answers.en

Line n of the source goes with line n of the reference; both are UTF-8 text as people write it,
plain or gzip. A source whose name ends with .conllu is read sentence by sentence, and a model that
reads trees sees them. BLEU and chrF are sacrebleu's; publish their signatures with them. An exact
match is a translation that is its reference, but for white space at the ends.
"""

import json
import sys

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

SUMMARY = "measure BLEU and chrF of a model's translations"


def add_arguments(parser):
    add_model_argument(parser)
    parser.add_argument("--source", metavar="FILE", required=True, help="what to translate")
    parser.add_argument(
        "--reference", metavar="FILE", required=True, help="how a person has translated it"
    )
    parser.add_argument(
        "--worst",
        type=int,
        metavar="N",
        default=5,
        help="sentences to show, those of the lowest chrF (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print all as a JSON object")
    parser.add_argument("--output", metavar="FILE", help="write the translations here, too")
    parser.add_argument(
        "--bleu-tokens",
        choices=("13a", "intl", "zh", "char", "none"),
        help="what BLEU counts; none is for texts that are cut into tokens already (default: what "
        "the recipe of its training says, else 13a)",
    )
    add_line_arguments(parser)
    add_search_options(parser)


def run(arguments):
    require_whole_numbers(arguments, 0, "worst")
    require_whole_numbers(arguments, 1, "batch_size")
    run_with_tensorflow(evaluate, arguments)


def evaluate(arguments):
    """Translates the source, compares it with the reference, prints what came out."""
    from keras_transformer.cli.text_output import one_line, open_output, require_output_file
    from keras_transformer.inference.evaluation import evaluate_translations
    from keras_transformer.inference.readers import require_parallel

    files = [arguments.source, arguments.reference]
    output = arguments.output and require_output_file("--output", arguments.output, files)
    require_parallel(files, arguments.encoding_errors)
    text_model = open_model(arguments.model, **search_settings(arguments))
    sources, references = read_both(*files, arguments.encoding_errors, text_model)
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
        print_evaluation(evaluation)


def bleu_tokens_of(text_model):
    """What BLEU counted when the model was trained; sacrebleu's default where that is not known."""
    from keras_transformer.inference.evaluation import BLEU_TOKENS

    evaluation = (text_model.recipe or {}).get("evaluation")
    known = evaluation.get("bleu_tokens") if isinstance(evaluation, dict) else None
    return known if known in BLEU_TOKENS else "13a"


def read_both(source, reference, encoding_errors, text_model):
    """Returns what the model is to translate, and the lines of the reference."""
    from keras_transformer.inference.readers import LineReader, as_sources

    texts = []
    for path in (source, reference):
        with LineReader(path, encoding_errors) as lines:
            is_source = path == source
            texts.append(list(as_sources(lines, path, text_model) if is_source else lines))
            note_replaced(lines)
    return texts


def translate_all(text_model, sources, batch_size):
    """Returns the best translation of each source, with a bar for those who wait."""
    from keras_transformer.cli.text_input import line_progress
    from keras_transformer.inference.translation import WINDOW, translate_lines

    hypotheses = []
    with line_progress("Translating", len(sources), output=None) as advance:
        for translation in translate_lines(text_model, sources, window=batch_size or WINDOW):
            hypotheses.append(translation.text)
            advance(1)
    return hypotheses


def print_evaluation(evaluation):
    """Prints a table and the worst sentences: with rules on a terminal, plain elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from keras_transformer._utils.console import shown

    # A terminal of another encoding gets question marks for what it cannot show.
    sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    is_plain = not console.is_terminal or console.is_dumb_terminal
    table = Table(box=None if is_plain else box.ROUNDED, pad_edge=not is_plain)
    table.add_column("")
    table.add_column("value", justify="right")
    table.add_column("measured as")
    table.add_row("sentences", f"{evaluation.sentences:,}", "")
    table.add_row("BLEU", f"{evaluation.bleu:.2f}", evaluation.bleu_signature)
    table.add_row("chrF", f"{evaluation.chrf:.2f}", evaluation.chrf_signature)
    table.add_row(
        "exact match",
        f"{evaluation.exact_match_share:.1%}",
        f"{evaluation.exact_matches:,} sentences",
    )
    # Printed in one piece by Python itself: at a closed pipe, rich would end the process with 1.
    with console.capture() as capture:
        console.print(table)
        for sentence in evaluation.worst:
            console.print(f"\nline {sentence.line:,}, chrF {sentence.chrf:.1f}")
            for name in ("source", "reference", "hypothesis"):
                text = shown(getattr(sentence, name))
                console.print(Text(f"  {name + ':':<12}{text}"), soft_wrap=is_plain)
    print("\n".join(line.rstrip(" ") for line in capture.get().split("\n")), end="")
