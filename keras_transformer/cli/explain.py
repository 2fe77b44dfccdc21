"""Explains a translation, and measures whether its attention can be trusted.

  keras-transformer explain runs/dates "12. Mai 2021"
  keras-transformer explain runs/dates "12. Mai 2021" --target 2021-12-05 --output wrong.html
  keras-transformer explain runs/dates "12. Mai 2021" --json

Attention weights look like an explanation. Two measurements show how far they can be trusted: their
agreement with gradients and with the effect of erasing each source token, and the change of the
output when the weights are shuffled or made uniform. The command prints the translation and a
verdict, and writes an HTML page with all measurements and all attention heads, which needs no
network. With --json it prints all numbers instead, and writes the page only if --output is given.
MODEL must be a run directory, because an export has no gradients.
"""

import argparse
import json

from keras_transformer._utils.checks import require_seed
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_input import require_whole_numbers, run_with_tensorflow

SUMMARY = "explain a translation, and measure whether its attention can be trusted"

#: Default path of the page.
PAGE = "explanation.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the verb."""
    parser.add_argument("model", metavar="MODEL", help="a run directory")
    parser.add_argument("text", metavar="TEXT", help="the source text")
    parser.add_argument(
        "--target", metavar="TEXT", help="its translation (default: the model's own)"
    )
    parser.add_argument("--output", metavar="FILE", help=f"file of the page (default: {PAGE})")
    parser.add_argument("--json", action="store_true", help="print all numbers as one line of JSON")
    draws, seed = "number of random permutations of the weights", "seed of the permutations"
    parser.add_argument(
        "--draws", type=int, metavar="N", default=100, help=f"{draws} (default: 100)"
    )
    parser.add_argument("--seed", type=int, metavar="N", default=0, help=f"{seed} (default: 0)")


def run(arguments: argparse.Namespace) -> None:
    """Checks the options and explains the text."""
    require_whole_numbers(arguments, 1, "draws")
    require_seed("--seed", arguments.seed)
    if not arguments.text.strip():
        raise UserError("TEXT is blank: there is nothing to explain.")
    run_with_tensorflow(explain_text, arguments)


def explain_text(arguments: argparse.Namespace) -> None:
    """Writes the page, and prints the verdict or the numbers."""
    from keras_transformer.analysis.explain import (
        explain,
        judge,
        make_explanation_page,
        open_explainable,
    )
    from keras_transformer.cli.text_output import one_line, open_output, require_output_file

    output = arguments.output or (None if arguments.json else PAGE)
    path = None if output is None else require_output_file("--output", output)
    trained = open_explainable(arguments.model)
    given = arguments.text, arguments.target, arguments.draws, arguments.seed
    explanation = explain(trained, *given, name=arguments.model)
    verdict = judge(explanation)
    if path is not None:
        with open_output(path) as write:
            write(make_explanation_page(explanation))
    with open_output(None) as write:
        if arguments.json:
            content = {
                **explanation.as_dict(),
                "verdict": {
                    "finding": verdict.finding,
                    "headline": verdict.headline,
                    "reasons": list(verdict.reasons),
                },
            }
            write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            lines = [one_line(explanation.target), verdict.headline, *verdict.reasons]
            write("".join(f"{line}\n" for line in [*lines, f"Saved: {output}"]))
