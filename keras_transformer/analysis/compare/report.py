"""Reports of results: table, Markdown file, and picture."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keras_transformer._utils.console import print_table
from keras_transformer._utils.pictures import COLORS, MARKERS, draw_png, simplify_axes
from keras_transformer.analysis.compare.results import SOLVED, Measure, ModelResult, Results
from keras_transformer.trainer.summary import metric_name, metric_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console


def make_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Returns headings and rows of the table, all as text; the first column is the model."""
    tests = dict.fromkeys(name for each in results.models for name in each.tests)
    has_distances = any(each.by_distance for each in results.models)
    quality, title = results.quality, metric_name(results.quality)

    def cells(each: ModelResult) -> dict[str, str]:
        measures = each.measures
        row = {"model": each.model, "validation loss": _text("loss", measures["loss"])}
        if quality != "loss":
            row[f"validation {title}"] = _text(quality, measures[quality])
            row |= {f"{name}, {title}": _text(quality, each.tests.get(name)) for name in tests}
        if has_distances:
            row["longest dependency solved"] = _text("distance", measures.get("longest_solved"))
        return row | {
            "tokens/s": _text("tokens_per_second", measures["tokens_per_second"]),
            "memory, MB": _text("memory", measures["peak_memory_mb"]),
            "parameters": f"{each.parameters:,}",
            "steps": f"{each.steps:,}",
            "seeds": f"{len(each.seeds)}",
        }

    rows = [cells(each) for each in results.models]
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
    lines += _table(headings, rows)
    lines += ["", f"![{results.name}]({picture})", ""]
    distances = next((each.by_distance for each in results.models if each.by_distance), ())
    if distances:
        numbers = [distance for distance, _ in distances]
        lines += [f"{metric_name('exact_match').capitalize()} by distance:", ""]
        rows = [
            [each.model, *(_text("exact_match", dict(each.by_distance).get(d)) for d in numbers)]
            for each in results.models
        ]
        lines += [*_table(["model", *map(str, numbers)], rows), ""]
    lines += [
        f"Missing, because it failed: {model}, seed {seed}." for model, seed in results.missing
    ]
    return "\n".join(lines).rstrip() + "\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table whose first column is aligned left, the others right."""
    rules = ["---", *["---:"] * (len(headings) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (headings, rules, *rows)]


def describe(results: Results) -> str:
    """Returns the numbers of seeds and the budget in words.

    >>> from types import SimpleNamespace
    >>> describe(SimpleNamespace(seeds=(1, 2), budget={"tokens": 5000, "seconds": None}))
    'mean ± standard deviation over 2 seeds, 5,000 target tokens each'
    """
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
        handles, labels = all_axes[0].get_legend_handles_labels()
        columns = min(6, len(labels))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)

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
    axes.set_xlabel("target tokens")
    axes.set_ylabel("validation loss")
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
    x = [position for position, _ in points]
    axes.plot(
        x,
        [measure.mean for _, measure in points],
        color=color,
        linestyle=_DASHES[number // len(COLORS) % len(_DASHES)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=5,
        linewidth=1.5,
        label=name,
    )
    lowest = [min(measure.values) for _, measure in points]
    highest = [max(measure.values) for _, measure in points]
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
