"""The results as a picture: learning curves, quality by distance and by source length."""

import io

from keras_transformer.analysis.compare.results import SOLVED
from keras_transformer.trainer.summary import metric_name, metric_value


def make_rows(results):
    """Returns the headings and a list of rows, all texts; the first column is the model.

    Args:
        results: a `Results`.
    """
    tests = list(dict.fromkeys(name for each in results.standings for name in each.tests))
    quality = metric_name(results.quality)
    columns = {"validation loss": lambda each: _text("loss", each.measures.get("loss"))}
    if results.quality != "loss":
        columns[f"validation {quality}"] = lambda each: _text(
            results.quality, each.measures.get(results.quality)
        )
        for name in tests:
            columns[f"{name}, {quality}"] = lambda each, name=name: _text(
                results.quality, each.tests.get(name)
            )
    if any(each.by_distance for each in results.standings):
        columns["longest dependency solved"] = lambda each: _text(
            "distance", each.measures.get("longest_solved")
        )
    columns |= {
        "tokens/s": lambda each: _text("tokens_per_second", each.measures["tokens_per_second"]),
        "memory, MB": lambda each: _text("memory", each.measures["peak_memory_mb"]),
        "parameters": lambda each: f"{each.parameters:,}",
        "updates": lambda each: f"{each.updates:,}",
        "seeds": lambda each: f"{len(each.seeds)}",
    }
    rows = [[each.model, *(make(each) for make in columns.values())] for each in results.standings]
    return ["model", *columns], rows


def make_table(results):
    """Returns a rich table."""
    from rich.table import Table

    headings, rows = make_rows(results)
    table = Table(title=f"{results.name}: {describe(results)}")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def make_markdown(results, picture):
    """Returns the text of a Markdown file with the table and the picture.

    Args:
        results: a `Results`.
        picture: the name of the picture's file.
    """
    headings, rows = make_rows(results)
    lines = [f"# {results.name}", "", f"{describe(results)}.".capitalize(), ""]
    lines += [_line(headings), _line(["---", *["---:"] * (len(headings) - 1)])]
    lines += map(_line, rows)
    lines += ["", f"![{results.name}]({picture})", ""]
    distances = next((each.by_distance for each in results.standings if each.by_distance), ())
    if distances:
        lines += _distance_lines(results, [distance for distance, _ in distances])
    lines += [f"Not there, as it failed: {model}, seed {seed}." for model, seed in results.missing]
    return "\n".join(lines).rstrip() + "\n"


def describe(results):
    """In words: what is shown, and under which budget.

    >>> from types import SimpleNamespace
    >>> describe(SimpleNamespace(seeds=(1, 2), budget={"tokens": 5000, "seconds": None}))
    'mean ± standard deviation over 2 seeds, 5,000 target tokens each'
    """
    seeds = len(results.seeds)
    budget = "as many updates as the recipe has"
    if results.budget["tokens"] is not None:
        budget = f"{results.budget['tokens']:,} target tokens each"
    elif results.budget["seconds"] is not None:
        budget = f"{results.budget['seconds']:,.0f} seconds each"
    what = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "1 seed"
    return f"{what}, {budget}"


def _distance_lines(results, distances):
    lines = [f"{metric_name('exact_match').capitalize()} by distance:", ""]
    lines += [_line(["model", *map(str, distances)]), _line(["---", *["---:"] * len(distances)])]
    for each in results.standings:
        found = dict(each.by_distance)
        lines.append(_line([each.model, *(_text("exact_match", found.get(d)) for d in distances)]))
    return [*lines, ""]


def _line(cells):
    return f"| {' | '.join(cells)} |"


def _text(name, measure):
    if measure is None:
        return "–"
    digits = {"memory": "{:,.0f}", "distance": "{:.0f}"}
    show = digits[name].format if name in digits else lambda value: metric_value(name, value)
    if measure.spread is None:
        return show(measure.mean)
    return f"{show(measure.mean).removesuffix('%')} ± {show(measure.spread)}"


# The palette of Okabe and Ito 2008, "Color universal design", which the color-blind can tell
# apart, without the yellow, which is too light for lines.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":", "-.")
_MARKERS = "os^Dv<>P"


def draw_results(results):
    """Returns the picture as the bytes of a PNG file.

    Lines are means over the seeds, and the bands around them reach from the least to the most.

    Args:
        results: a `Results`.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [_draw_curves]
    if any(each.by_distance for each in results.standings):
        panels.append(_draw_distances)
    if any(each.by_length for each in results.standings):
        panels.append(_draw_lengths)
    # The settings of the user's own matplotlibrc are for other pictures.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(6.2 * len(panels), 5), dpi=110, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
        figure.suptitle(results.name, fontsize=14, fontweight="bold", parse_math=False)
        for axes, draw in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            draw(axes, results)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.25)
            axes.set_axisbelow(True)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        columns = min(6, len(labels))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        content = io.BytesIO()
        FigureCanvasAgg(figure).print_png(content)
    return content.getvalue()


def _draw_curves(axes, results):
    from matplotlib.ticker import LogFormatter

    for number, each in enumerate(results.standings):
        _draw_line(axes, number, each.model, each.curve)
    axes.set_yscale("log")
    # Plain numbers, not powers of ten; those between the powers only where there are few of them.
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))
    axes.set_title("How they learn", fontsize=12)
    axes.set_xlabel("target tokens")
    axes.set_ylabel("validation loss")
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))


def _draw_distances(axes, results):
    from matplotlib.ticker import NullFormatter, NullLocator

    distances = []
    for number, each in enumerate(results.standings):
        _draw_line(axes, number, each.model, each.by_distance)
        distances = [distance for distance, _ in each.by_distance] or distances
    axes.set_xscale("log", base=2)
    axes.set_xticks(distances, [str(distance) for distance in distances])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axhline(SOLVED, color="gray", linewidth=1, linestyle=":")
    if results.trained_distance is not None:
        axes.axvline(results.trained_distance, color="gray", linewidth=1, linestyle=":")
        axes.annotate(
            "seen in training ",
            (results.trained_distance, 0.03),
            xycoords=("data", "axes fraction"),
            ha="right",
            color="gray",
        )
    axes.set_title("How far back they look", fontsize=12)
    axes.set_xlabel("distance in tokens")
    _label_quality(axes, "exact_match")


def _draw_lengths(axes, results):
    for number, each in enumerate(results.standings):
        points = [((least + most) / 2, measure) for least, most, measure in each.by_length]
        _draw_line(axes, number, each.model, points)
    axes.set_title("How they bear long sources", fontsize=12)
    axes.set_xlabel("source tokens, middle of the group")
    _label_quality(axes, "exact_match" if results.quality == "loss" else results.quality)


def _draw_line(axes, number, name, points):
    style = {
        "color": _COLOURS[number % len(_COLOURS)],
        "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)],
    }
    x = [place for place, _ in points]
    measures = [measure for _, measure in points]
    axes.plot(
        x,
        [measure.mean for measure in measures],
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=5,
        linewidth=1.5,
        label=name,
        **style,
    )
    axes.fill_between(
        x,
        [min(measure.values) for measure in measures],
        [max(measure.values) for measure in measures],
        color=style["color"],
        alpha=0.15,
        linewidth=0,
    )


def _label_quality(axes, name):
    axes.set_ylabel(metric_name(name))
    if name == "exact_match":
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _short(number):
    """A number as it fits under an axis.

    >>> _short(0), _short(64_000), _short(1_500_000)
    ('0', '64k', '1.5M')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
