"""Results of a comparison: means and deviations over the seeds, as table, Markdown and picture."""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from keras_transformer._utils.console import print_table
from keras_transformer._utils.pictures import COLORS, MARKERS, draw_png, simplify_axes
from keras_transformer.analysis.compare.comparison import Comparison
from keras_transformer.analysis.compare.planning import Plan
from keras_transformer.analysis.compare.runs import ComparedRun, distance_of_test, read_json
from keras_transformer.data.builtin.recall import TRAINED_DISTANCES
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.summary import metric_name, metric_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

#: Share of exact matches from which a distance is solved.
SOLVED = 0.9


def longest_solved(exact_matches: Mapping[int, float]) -> int:
    """Returns the greatest distance that is solved together with all shorter ones, or 0.

    A distance beyond an unsolved one is not counted: it was solved by chance, or without using the
    pair at this distance.
    """
    solved = itertools.takewhile(lambda each: exact_matches[each] >= SOLVED, sorted(exact_matches))
    return max(solved, default=0)


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that was measured once for each seed.

    Attributes:
        values: One value for each run.
        mean: Mean of the values.
        deviation: Standard deviation of the values (n - 1), or None for a single one.
    """

    values: tuple[float, ...]
    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Returns the measure of one or more numbers."""
        known = tuple(values)
        deviation = statistics.stdev(known) if len(known) > 1 else None
        return cls(known, statistics.fmean(known), deviation)

    @classmethod
    def if_known(cls, values: Iterable[float | None]) -> Self | None:
        """Returns the measure of numbers, or None if one of them is unknown."""
        given = list(values)
        known = [value for value in given if value is not None]
        return cls.of(known) if len(known) == len(given) else None


@dataclasses.dataclass(frozen=True)
class ModelResult:
    """Results of one model.

    Attributes:
        model: Name of the model.
        seeds: Seeds of the finished runs.
        parameters: Number of parameters.
        steps: Number of training steps.
        tokens: Number of target tokens in these steps.
        measures: By name, None if not measured: "loss" and the quality on the validation data,
            "tokens_per_second", "peak_memory_mb", and "longest_solved" if tests have distances.
        tests: The quality for each test set without a distance.
        by_distance: Pairs of a distance and the quality, in ascending order.
        by_length: Shortest length, longest length and the quality, in ascending order.
        curve: Pairs of target tokens and the loss during training.
    """

    model: str
    seeds: tuple[int, ...]
    parameters: int
    steps: int
    tokens: float
    measures: dict[str, Measure | None]
    tests: dict[str, Measure]
    by_distance: tuple[tuple[int, Measure], ...]
    by_length: tuple[tuple[int, int, Measure], ...]
    curve: tuple[tuple[float, Measure], ...]


@dataclasses.dataclass(frozen=True)
class Results:
    """A comparison and the results of its models.

    Attributes:
        name: Name of the comparison.
        recipe: The recipe that all models share.
        budget: `Budget.to_dictionary()`.
        seeds: Seeds of the comparison.
        quality: Name of the metric that is reported in addition to the loss.
        trained_distance: Greatest distance in training, or None if it is unknown.
        models: Results of each model with a finished run, in the order of the comparison.
        missing: Model and seed of each run that failed.
    """

    name: str
    recipe: str
    budget: dict[str, float | None]
    seeds: tuple[int, ...]
    quality: str
    trained_distance: int | None
    models: tuple[ModelResult, ...]
    missing: tuple[tuple[str, int], ...]


def collect_results(
    comparison: Comparison, recipe: Recipe, plan: Plan, output: str | os.PathLike[str]
) -> Results:
    """Returns the results of the finished runs; `recipe` is that of the first model."""
    quality = comparison.chosen_quality(recipe)
    models, missing = [], []
    for model in comparison.models:
        runs = {seed: ComparedRun.of(output, model, seed) for seed in comparison.seeds}
        finished = {seed: run for seed, run in runs.items() if run.measured.exists()}
        missing += [(model, seed) for seed in runs if seed not in finished]
        if finished:
            models.append(_model_result(model, finished, quality, plan["tokens_per_step"]))
    return Results(
        name=comparison.name,
        recipe=comparison.recipe,
        budget=comparison.budget.to_dictionary(),
        seeds=comparison.seeds,
        quality=quality,
        trained_distance=TRAINED_DISTANCES[1] if recipe.data.builtin == "recall" else None,
        models=tuple(models),
        missing=tuple(missing),
    )


def _model_result(
    model: str, runs: Mapping[int, ComparedRun], quality: str, tokens_per_step: float
) -> ModelResult:
    measured = [read_json(run.measured) for run in runs.values()]
    first = measured[0]
    measures = {
        name: Measure.if_known(each["validation"].get(name) for each in measured)
        for name in ("loss", quality)
    }
    for name in ("tokens_per_second", "peak_memory_mb"):
        measures[name] = Measure.if_known(each[name] for each in measured)
    metric = "exact_match" if quality == "loss" else quality
    tests = {
        name: Measure.of(each["tests"][name][metric] for each in measured)
        for name in first["tests"]
    }
    names = {distance_of_test(name): name for name in tests}
    distances = sorted(distance for distance in names if distance is not None)
    if distances:
        measures["longest_solved"] = Measure.of(
            longest_solved({d: each["tests"][names[d]]["exact_match"] for d in distances})
            for each in measured
        )
    by_distance = tuple((distance, tests.pop(names[distance])) for distance in distances)
    curves = [dict(run.curve()) for run in runs.values()]
    return ModelResult(
        model=model,
        seeds=tuple(runs),
        parameters=first["parameters"],
        steps=first["steps"],
        tokens=first["steps"] * tokens_per_step,
        measures=measures,
        tests=tests,
        by_distance=by_distance,
        by_length=tuple(
            (groups[0]["least"], groups[0]["most"], Measure.of(each[metric] for each in groups))
            for groups in zip(*(each["by_length"] for each in measured), strict=True)
        ),
        curve=tuple(
            (step * tokens_per_step, Measure.of(each[step] for each in curves))
            for step in curves[0]
            if all(step in each for each in curves)
        ),
    )


def make_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Returns headings and rows of the table, all as text; the first column is the model."""
    tests = dict.fromkeys(name for each in results.models for name in each.tests)
    has_distances = any(each.by_distance for each in results.models)
    quality, title = results.quality, metric_name(results.quality)

    rows = []
    for each in results.models:
        measures = each.measures
        row = {"model": each.model, "validation loss": _text("loss", measures["loss"])}
        if quality != "loss":
            row[f"validation {title}"] = _text(quality, measures[quality])
            row |= {f"{name}, {title}": _text(quality, each.tests.get(name)) for name in tests}
        if has_distances:
            row["longest dependency solved"] = _text("distance", measures.get("longest_solved"))
        row["tokens/s"] = _text("tokens_per_second", measures["tokens_per_second"])
        row["memory, MB"] = _text("memory", measures["peak_memory_mb"])
        row |= {"parameters": f"{each.parameters:,}", "steps": f"{each.steps:,}"}
        rows.append(row | {"seeds": f"{len(each.seeds)}"})
    return list(rows[0]), [list(row.values()) for row in rows]


def draw_table(console: "Console", results: Results) -> None:
    """Prints the table on a rich console."""
    headings, rows = make_rows(results)
    title = f"{results.name}: {describe(results)}"
    print_table(console, headings, rows, title=title, right=range(1, len(headings)))


def make_markdown(results: Results, picture: str) -> str:
    """Returns a Markdown file with the table, and the picture of that file name."""
    headings, rows = make_rows(results)
    lines = [f"# {results.name}", "", f"{describe(results)}.".capitalize(), ""]
    lines += [*_table(headings, rows), "", f"![{results.name}]({picture})", ""]
    distances = next((each.by_distance for each in results.models if each.by_distance), ())
    if distances:
        numbers = [distance for distance, _ in distances]
        lines += [f"{metric_name('exact_match').capitalize()} by distance:", ""]
        rows = [
            [each.model, *(_text("exact_match", dict(each.by_distance).get(d)) for d in numbers)]
            for each in results.models
        ]
        lines += [*_table(["model", *map(str, numbers)], rows), ""]
    lines += [f"Missing, because it failed: {model}, seed {n}." for model, n in results.missing]
    return "\n".join(lines).rstrip() + "\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table whose first column is aligned left, the others right."""
    rules = ["---", *["---:"] * (len(headings) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (headings, rules, *rows)]


def describe(results: Results) -> str:
    """Returns the numbers of seeds and the budget in words."""
    seeds = len(results.seeds)
    budget = "the steps of the recipe"
    if results.budget["tokens"] is not None:
        budget = f"{results.budget['tokens']:,} target tokens each"
    elif results.budget["seconds"] is not None:
        budget = f"{results.budget['seconds']:,.0f} seconds each"
    numbers = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "1 seed"
    return f"{numbers}, {budget}"


def _text(name: str, measure: Measure | None) -> str:
    if measure is None:
        return "–"
    formats = {"memory": "{:,.0f}", "distance": "{:.0f}"}
    show = formats[name].format if name in formats else lambda value: metric_value(name, value)
    if measure.deviation is None:
        return show(measure.mean)
    return f"{show(measure.mean).removesuffix('%')} ± {show(measure.deviation)}"


def draw_results(results: Results) -> bytes:
    """Returns learning curves, and quality by distance and source length, as a PNG file.

    Lines are means over the seeds; the areas around them show the range from minimum to maximum.
    """
    panels = [_draw_curves]
    if any(each.by_distance for each in results.models):
        panels.append(_draw_distances)
    if any(each.by_length for each in results.models):
        panels.append(_draw_lengths)

    def draw(figure: "Figure") -> None:
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, draw_panel in zip(all_axes, panels, strict=True):
            draw_panel(axes, results)
            simplify_axes(axes)
        lines = all_axes[0].get_legend_handles_labels()
        columns = min(6, len(results.models))
        figure.legend(*lines, loc="outside lower center", ncols=columns, frameon=False)

    size = (6.2 * len(panels), 5)
    return draw_png(draw, size, dpi=110, padding=(0.12, 0.1), title=results.name)


def _draw_curves(axes: "Axes", results: Results) -> None:
    from matplotlib.ticker import LogFormatter

    for number, each in enumerate(results.models):
        _draw_line(axes, number, each.model, each.curve)
    axes.set_yscale("log")
    # Plain numbers instead of powers of ten; numbers between the powers only if there are few.
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))
    axes.set_title("Learning curves", fontsize=12)
    axes.set(xlabel="target tokens", ylabel="validation loss")
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))


def _draw_distances(axes: "Axes", results: Results) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    distances = []
    for number, each in enumerate(results.models):
        _draw_line(axes, number, each.model, each.by_distance)
        distances = [distance for distance, _ in each.by_distance] or distances
    axes.set_xscale("log", base=2)
    axes.set_xticks(distances, [str(distance) for distance in distances])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axhline(SOLVED, color="gray", linewidth=1, linestyle=":")
    if results.trained_distance is not None:
        axes.axvline(results.trained_distance, color="gray", linewidth=1, linestyle=":")
        place = {"xycoords": ("data", "axes fraction"), "ha": "right"}
        axes.annotate("seen in training ", (results.trained_distance, 0.03), color="gray", **place)
    axes.set_title("Quality by distance", fontsize=12)
    axes.set_xlabel("distance in tokens")
    _label_quality(axes, "exact_match")


def _draw_lengths(axes: "Axes", results: Results) -> None:
    for number, each in enumerate(results.models):
        points = [((least + most) / 2, measure) for least, most, measure in each.by_length]
        _draw_line(axes, number, each.model, points)
    axes.set_title("Quality by source length", fontsize=12)
    axes.set_xlabel("source tokens, middle of the group")
    _label_quality(axes, "exact_match" if results.quality == "loss" else results.quality)


_DASHES = ("-", "--", ":", "-.")


def _draw_line(
    axes: "Axes", number: int, name: str, points: Sequence[tuple[float, Measure]]
) -> None:
    color = COLORS[number % len(COLORS)]
    x, measures = [x for x, _ in points], [measure for _, measure in points]
    axes.plot(
        x,
        [measure.mean for measure in measures],
        color=color,
        linestyle=_DASHES[number // len(COLORS) % len(_DASHES)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=5,
        linewidth=1.5,
        label=name,
    )
    lowest = [min(measure.values) for measure in measures]
    highest = [max(measure.values) for measure in measures]
    axes.fill_between(x, lowest, highest, color=color, alpha=0.15, linewidth=0)


def _label_quality(axes: "Axes", name: str) -> None:
    axes.set_ylabel(metric_name(name))
    if name == "exact_match":
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _short(number: float) -> str:
    """Returns a short text of a number, for an axis.

    >>> _short(0), _short(64_000), _short(1_500_000)
    ('0', '64k', '1.5M')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
