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
import dataclasses
import json

from keras_transformer._utils.checks import require_seed
from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer.cli import shared

SUMMARY = "explain a translation, and measure whether its attention can be trusted"

#: Default path of the page.
PAGE = "explanation.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run directory")
    add("text", metavar="TEXT", help="the source text")
    add("--target", metavar="TEXT", help="its translation (default: the model's own)")
    add("--output", metavar="FILE", help=f"file of the page (default: {PAGE})")
    add("--json", action="store_true", help="print all numbers as one line of JSON")
    draws = "number of random permutations of the weights (default: 100)"
    add("--draws", type=int, metavar="N", default=100, help=draws)
    seed = "seed of the permutations (default: 0)"
    add("--seed", type=int, metavar="N", default=0, help=seed)


def run(arguments: argparse.Namespace) -> None:
    """Checks the options and explains the text."""
    shared.require_whole_numbers(arguments, 1, "draws")
    require_seed("--seed", arguments.seed)
    if not arguments.text.strip():
        raise UserError("TEXT is blank: there is nothing to explain.")
    shared.run_with_tensorflow(explain_text, arguments)


def explain_text(arguments: argparse.Namespace) -> None:
    """Writes the page, and prints the verdict or the numbers."""
    from keras_transformer.analysis.explain import (
        explain,
        judge,
        make_explanation_page,
        open_explainable,
    )

    output = arguments.output or (None if arguments.json else PAGE)
    path = None if output is None else shared.require_output_file("--output", output)
    trained = open_explainable(arguments.model)
    given = arguments.text, arguments.target, arguments.draws, arguments.seed
    explanation = explain(trained, *given, name=arguments.model)
    verdict = judge(explanation)
    if path is not None:
        with shared.open_output(path) as write:
            write(make_explanation_page(explanation))
    with shared.open_output(None, is_json=arguments.json) as write:
        if arguments.json:
            content = {**explanation.as_dict(), "verdict": dataclasses.asdict(verdict)}
            write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            lines = [shared.one_line(explanation.target), verdict.headline, *verdict.reasons]
            write("".join(f"{line}\n" for line in [*lines, f"Saved: {shown(str(output))}"]))
