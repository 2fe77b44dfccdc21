"""The curves of `scaling` as a picture."""

import io

from training.benchmarks.scaling import CURVES, PowerLaw, coordinates

# From the palette of Okabe and Ito 2008, "Color universal design", which the color-blind can tell
# apart.
_BLUE, _ORANGE, _BLACK = "#0072B2", "#D55E00", "#000000"
_UNITS = {"ms_per_step": "milliseconds of a training step", "seconds": "seconds of preparation"}


def draw_scaling(rows, title):
    """Returns the picture of all curves as the bytes of a PNG file.

    Args:
        rows: of `measure_curves` and `measure_workers`.
        title: what was measured where.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The settings of the user's own matplotlibrc are for other pictures.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(18, 7.5), dpi=100, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.1)
        figure.suptitle(title, fontsize=14, fontweight="bold", parse_math=False)
        columns = [curve for curve in CURVES if any(row["task"] == curve.task for row in rows)]
        panels = figure.subplots(2, len(columns) + 1, squeeze=False)
        for (upper, lower), curve in zip(panels.T, columns, strict=False):
            points = [row for row in rows if row["task"] == curve.task]
            upper.set_title(curve.task.removeprefix("scaling_").capitalize(), fontsize=12)
            _draw_curve(upper, points, "value", _UNITS[points[0]["metric"]], _BLUE)
            _draw_curve(lower, points, "added_mb", "MB of memory that it adds", _ORANGE)
            lower.set_xlabel(curve.name)
        _draw_workers(panels[0, -1], [row for row in rows if row["task"] == "scaling_workers"])
        panels[1, -1].set_visible(False)
        content = io.BytesIO()
        FigureCanvasAgg(figure).print_png(content)
    return content.getvalue()


def _draw_curve(axes, points, field, what, color):
    """Draws the points and the straight line through them, whose slope is the exponent."""
    from matplotlib.ticker import LogLocator, NullFormatter

    x, y = coordinates(points, field)
    axes.set_ylabel(what)
    if len(x) < 2:
        axes.set_title("too little to measure", fontsize=10)
        return
    law = PowerLaw.fit(x, y)
    axes.loglog(x, y, color=color, marker="o", linewidth=0, markersize=7)
    at_the_end = PowerLaw.fit(x[-2:], y[-2:]).exponent
    label = f"exponent {law.exponent:.2f}\nat the end {at_the_end:.2f}"
    axes.loglog(x, law(x), color=color, linewidth=1.5, alpha=0.7, label=label)
    axes.set_ylim(min(y) / 2, max(max(y) * 5, min(y) * 20))  # room for the legend above
    axes.set_xticks(x, [_short(each) for each in x])
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(_thousands)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left", handlelength=1)


def _thousands(value, position):
    return f"{value:,.10g}"


def _short(number):
    """A number as it fits under an axis.

    >>> _short(512), _short(64_000)
    ('512', '64k')
    """
    return f"{number // 1000}k" if number >= 1000 else str(number)


def _draw_workers(axes, rows):
    """Draws tokens per second of so many processes, in what as many times one would give."""
    if not rows:
        axes.set_visible(False)
        return
    rates = [row["value"] for row in rows]
    names = [str(row["x"]) for row in rows]
    ideal = [rates[0] * row["x"] / rows[0]["x"] for row in rows]
    axes.bar(names, ideal, color="none", edgecolor=_BLACK, linestyle="--", width=0.7)
    axes.bar(names, rates, color=_BLUE, width=0.7)
    for position, rate in enumerate(rates):
        text = f"{rate:,.0f}" if position == 0 else f"{rate:,.0f}\n× {rate / rates[0]:.2f}"
        axes.annotate(text, (position, rate / 2), color="white", ha="center", va="center")
    axes.set_title("Workers", fontsize=12)
    axes.yaxis.set_major_formatter(_thousands)
    axes.set_xlabel("processes, a core each")
    axes.set_ylabel("target tokens per second")
    axes.spines[["top", "right"]].set_visible(False)
