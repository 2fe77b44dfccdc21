"""Sections of a results page, in Markdown."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from finished_run import FinishedRun
from mistake_kinds import Kind

from keras_transformer._utils.console import shown
from keras_transformer.analysis.compare.results import Measure
from keras_transformer.inference import Evaluation, PoorSentence
from keras_transformer.trainer.summary import metric_value

#: Number of sentences that are shown for each kind of mistake.
EXAMPLES = 3


def runs_section(
    groups: Mapping[str, Sequence[FinishedRun]],
    evaluations: Mapping[str | os.PathLike[str], Evaluation],
) -> list[str]:
    """Returns the lines about the runs: a table with means and deviations, and the signatures.

    Args:
        groups: Runs by recipe, from `group_by_recipe`.
        evaluations: `Evaluation` of each run on the test set, by the path of the run.
    """
    recipe = ["recipe"] if len(groups) > 1 else []
    headings = [*recipe, "seed", "parameters", "steps", "minutes", "validation BLEU"]
    headings += ["test BLEU", "test chrF"]
    lines = ["## The runs", "", *_table_head(headings, texts=len(recipe))]
    for name, runs in groups.items():
        cells = [_run_cells(run, evaluations[run.path]) for run in runs]
        rows = [[run.seed, *row] for run, row in zip(runs, cells, strict=True)]
        if len(runs) > 1:
            columns = map(Measure.if_known, zip(*cells, strict=True))
            rows.append(["mean ± standard deviation", *columns])
        for row in rows:
            texts = [str(row[0]), *map(_cell_text, _FORMATS, row[1:])]
            lines.append(_table_line([name, *texts] if recipe else texts))
    return [*lines, "", *_signatures(groups, evaluations), ""]


def mistakes_section(
    run: FinishedRun,
    evaluation: Evaluation,
    kinds: Sequence[tuple[Kind, Sequence[PoorSentence]]],
    training_pairs: int,
) -> list[str]:
    """Returns the lines about the mistakes of a run: counts of each kind, and examples.

    Args:
        run: The run.
        evaluation: Its evaluation on the test set.
        kinds: All sentences that are not exact matches, from `sort_by_kind`.
        training_pairs: Number of pairs in the training data.
    """
    lines = [
        "## Mistakes",
        "",
        f"Translations of the {evaluation.sentences:,} test sentences by the run of "
        f"{run.recipe.name} with seed {run.seed}. Each belongs to the first kind whose rule fits. "
        f"Words are separated by white space. The training data has {training_pairs:,} pairs.",
        "",
        *_table_head(["kind", "the translation …", "sentences", "share"], texts=2),
    ]
    matches = round(evaluation.metrics["exact_match"] * evaluation.sentences)
    rows = [("exact match", "is the reference", matches)]
    rows += [(kind.name, kind.rule, len(sentences)) for kind, sentences in kinds]
    for name, rule, count in rows:
        share = f"{count / evaluation.sentences:.1%}"
        lines.append(_table_line([name, rule, f"{count:,}", share]))
    lines += ["", f"Translations with the lowest chrF, at most {EXAMPLES} of each kind:", ""]
    for kind, sentences in kinds:
        if sentences:
            lines += [f"### {kind.name.capitalize()}", "", "```text"]
            lines += [line for each in sentences[:EXAMPLES] for line in _example_lines(each)]
            lines += ["```", ""]
    return lines


def pictures_section(directory: str) -> list[str]:
    """Returns the lines that show the pictures in a subdirectory of the page's directory."""
    return [
        "![Training and validation loss, and validation BLEU, by step]"
        f"({directory}/learning_curves.png)",
        "",
        f"![Test BLEU by the number of words of the source]({directory}/bleu_by_length.png)",
        "",
        "BLEU by source length: points are means over the seeds, bars show minimum and maximum.",
        "",
    ]


# Formats of the columns after the seed.
_FORMATS: tuple[Callable[[float], str], ...] = (
    "{:,.0f}".format,
    "{:,.0f}".format,
    "{:,.1f}".format,
    *[lambda value: metric_value("bleu", value)] * 2,
    lambda value: metric_value("chrf", value),
)


def _run_cells(run: FinishedRun, evaluation: Evaluation) -> list[float | None]:
    result = run.result
    return [
        result.parameters,
        result.steps,
        result.seconds / 60,
        result.validation.get("bleu"),
        evaluation.metrics["bleu"],
        evaluation.metrics["chrf"],
    ]


def _cell_text(show: Callable[[float], str], value: float | Measure | None) -> str:
    """Returns a number, or a measure with its deviation unless it is 0; a dash for None."""
    if value is None:
        return "–"
    if not isinstance(value, Measure):
        return show(value)
    return f"{show(value.mean)} ± {show(value.deviation)}" if value.deviation else show(value.mean)


def _signatures(
    groups: Mapping[str, Sequence[FinishedRun]],
    evaluations: Mapping[str | os.PathLike[str], Evaluation],
) -> Iterator[str]:
    """Yields the settings and versions of the metrics."""
    runs = [run for group in groups.values() for run in group]
    evaluation = evaluations[runs[0].path]
    yield (
        f"Test set: {evaluation.sentences:,} sentences, BLEU `{evaluation.signatures['bleu']}`, "
        f"chrF `{evaluation.signatures['chrf']}`."
    )
    settings = {
        (run.recipe.evaluation.sentences, run.recipe.evaluation.bleu_tokens)
        for run in runs
        if "bleu" in run.result.validation
    }
    for sentences, tokens in sorted(settings):
        yield f"Validation BLEU: at most the first {sentences:,} sentences, `tok:{tokens}`."


def _example_lines(sentence: PoorSentence) -> Iterator[str]:
    yield f"line {sentence.line:,}, chrF {sentence.chrf:.1f}"
    for name in ("source", "reference", "hypothesis"):
        yield f"  {name + ':':<12}{shown(getattr(sentence, name))}"


def _table_head(headings: Sequence[str], texts: int) -> list[str]:
    """Returns the first two lines of a table, whose first `texts` columns are aligned left."""
    return [
        _table_line(headings),
        _table_line(["---"] * texts + ["---:"] * (len(headings) - texts)),
    ]


def _table_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
