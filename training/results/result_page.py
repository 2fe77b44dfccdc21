"""The parts of a page about results, in Markdown."""

from keras_transformer._utils.console import shown
from keras_transformer.analysis.compare.results import Measure
from keras_transformer.trainer.summary import metric_value

#: Sentences that are shown of each kind of mistake.
EXAMPLES = 3


def runs_section(groups, evaluations):
    """Returns the lines about the runs: a table with means and spreads, and how it was measured.

    Args:
        groups: what `group_by_recipe` gave.
        evaluations: the `Evaluation` of each run on the test set, by the run's path.
    """
    recipe = ["recipe"] if len(groups) > 1 else []
    headings = [*recipe, "seed", "parameters", "updates", "minutes", "validation BLEU"]
    headings += ["test BLEU", "test chrF"]
    lines = ["## The runs", "", *_table_head(headings, texts=len(recipe))]
    for name, runs in groups.items():
        cells = [_run_cells(run, evaluations[run.path]) for run in runs]
        rows = [[run.seed, *row] for run, row in zip(runs, cells, strict=True)]
        if len(runs) > 1:
            columns = map(Measure.of, zip(*cells, strict=True))
            rows.append(["mean ± standard deviation", *columns])
        for row in rows:
            texts = [str(row[0]), *map(_cell_text, _FORMATS, row[1:])]
            lines.append(_table_line([name, *texts] if recipe else texts))
    return [*lines, "", *_measured_as(groups, evaluations), ""]


def mistakes_section(run, evaluation, kinds, training_pairs):
    """Returns the lines about what a run gets wrong: how much of each kind, and examples.

    Args:
        run: the `FinishedRun`.
        evaluation: its `Evaluation` on the test set.
        kinds: what `sort_by_kind` gave for all that is no exact match.
        training_pairs: how many pairs the training has.
    """
    lines = [
        "## What it still gets wrong",
        "",
        f"The {evaluation.sentences:,} test sentences as the run of {run.recipe.name} with seed "
        f"{run.seed} translates them. Each is of the first kind whose rule fits. Words are what "
        f"stands between white space; the training has {training_pairs:,} pairs.",
        "",
        *_table_head(["kind", "the translation …", "sentences", "share"], texts=2),
    ]
    rows = [("exact match", "is the reference", evaluation.exact_matches)]
    rows += [(kind.name, kind.rule, len(sentences)) for kind, sentences in kinds]
    for name, rule, count in rows:
        share = f"{count / evaluation.sentences:.1%}"
        lines.append(_table_line([name, rule, f"{count:,}", share]))
    lines += ["", f"Those with the lowest chrF, {EXAMPLES} of each kind at most:", ""]
    for kind, sentences in kinds:
        if sentences:
            lines += [f"### {kind.name.capitalize()}", "", "```text"]
            lines += [line for each in sentences[:EXAMPLES] for line in _example_lines(each)]
            lines += ["```", ""]
    return lines


def pictures_section(folder):
    """Returns the lines that show the pictures, which lie in a folder beside the page."""
    return [
        "![Losses of training and validation, and validation BLEU, by update]"
        f"({folder}/learning_curves.png)",
        "",
        f"![Test BLEU by the number of words of the source]({folder}/bleu_by_length.png)",
        "",
        "BLEU by source length: points are means over the seeds, and bars reach from the least to "
        "the most of them.",
        "",
    ]


# Of the columns of the table after the seed: a function from a number to its text.
_FORMATS = (
    "{:,.0f}".format,
    "{:,.0f}".format,
    "{:,.1f}".format,
    *[lambda value: metric_value("bleu", value)] * 2,
    lambda value: metric_value("chrf", value),
)


def _run_cells(run, evaluation):
    result = run.result
    return [
        result.parameters,
        result.steps,
        result.seconds / 60,
        result.validation.get("bleu"),
        evaluation.bleu,
        evaluation.chrf,
    ]


def _cell_text(show, value):
    """A number, or a `Measure` with its spread, unless that is 0; a dash where there is none."""
    if value is None:
        return "–"
    if not isinstance(value, Measure):
        return show(value)
    return f"{show(value.mean)} ± {show(value.spread)}" if value.spread else show(value.mean)


def _measured_as(groups, evaluations):
    """Yields how the numbers were measured."""
    runs = [run for group in groups.values() for run in group]
    evaluation = evaluations[runs[0].path]
    yield (
        f"Test set: {evaluation.sentences:,} sentences, BLEU `{evaluation.bleu_signature}`, "
        f"chrF `{evaluation.chrf_signature}`."
    )
    ways = {
        (run.recipe.evaluation.sentences, run.recipe.evaluation.bleu_tokens)
        for run in runs
        if "bleu" in run.result.validation
    }
    for sentences, tokens in sorted(ways):
        yield f"Validation BLEU: no more than the first {sentences:,} sentences, `tok:{tokens}`."


def _example_lines(sentence):
    yield f"line {sentence.line:,}, chrF {sentence.chrf:.1f}"
    for name in ("source", "reference", "hypothesis"):
        yield f"  {name + ':':<12}{shown(getattr(sentence, name))}"


def _table_head(headings, texts):
    """The first two lines of a table; the first `texts` columns are texts, the others numbers."""
    return [
        _table_line(headings),
        _table_line(["---"] * texts + ["---:"] * (len(headings) - texts)),
    ]


def _table_line(cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
