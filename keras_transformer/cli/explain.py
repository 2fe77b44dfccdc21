"""Explains a translation: which words of the source it came from, and whether attention tells.

  keras-transformer explain runs/dates "12. Mai 2021"
  keras-transformer explain runs/dates "12. Mai 2021" --target 2021-12-05 --output wrong.html
  keras-transformer explain runs/dates "12. Mai 2021" --json

Attention weights look like an explanation. Whether they are one is measured here: by their
agreement with gradients and with what the model says when a word is erased, and by what it says
when the weights are shuffled or made equal. The page begins with a verdict in plain words and shows
all of it, every head included; it is one file that needs no network. MODEL is the directory of a
run: an export has no gradients. With --json the numbers are printed, and the page is written only
where --output names it.
"""

import json

from keras_transformer._utils.checks import require_seed
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_input import require_whole_numbers, run_with_tensorflow

SUMMARY = "why a model wrote what it wrote, and whether attention tells"

#: Where the page goes if nothing else is said.
PAGE = "explanation.html"


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL", help="the directory of a run")
    parser.add_argument("text", metavar="TEXT", help="the source")
    parser.add_argument(
        "--target", metavar="TEXT", help="its translation (default: the model's own)"
    )
    parser.add_argument("--output", metavar="FILE", help=f"the page (default: {PAGE})")
    parser.add_argument("--json", action="store_true", help="print the numbers")
    parser.add_argument(
        "--draws",
        type=int,
        metavar="N",
        default=100,
        help="random permutations of the weights (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="S", default=0, help="of these (default: %(default)s)"
    )


def run(arguments):
    require_whole_numbers(arguments, 1, "draws")
    try:
        require_seed("--seed", arguments.seed)
    except ValueError as error:
        raise UserError(str(error)) from error
    if not arguments.text.strip():
        raise UserError("TEXT is blank: there is nothing to explain.")
    run_with_tensorflow(explain_text, arguments)


def explain_text(arguments):
    """Explains, writes the page, and prints the verdict or the numbers."""
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
    explanation = explain(
        trained,
        arguments.text,
        arguments.target,
        draws=arguments.draws,
        seed=arguments.seed,
        name=arguments.model,
    )
    verdict = judge(explanation)
    if path is not None:
        with open_output(path) as write:
            write(make_explanation_page(explanation))
    with open_output(None) as write:
        if arguments.json:
            write(as_json(explanation, verdict))
        else:
            lines = [one_line(explanation.target), verdict.headline, *verdict.reasons]
            write("".join(f"{line}\n" for line in [*lines, f"All of it: {output}"]))


def as_json(explanation, verdict):
    """Returns all numbers and the verdict as one line of JSON."""
    said = {
        "finding": verdict.finding,
        "headline": verdict.headline,
        "reasons": list(verdict.reasons),
    }
    content = {**explanation.as_dict(), "verdict": said}
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"
