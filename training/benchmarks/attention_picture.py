"""The growth of attention's cost as a picture."""

import io

from training.benchmarks.attention import FITTED, group_by_mechanism
from training.benchmarks.scaling import PowerLaw, coordinates

# The palette of Okabe and Ito 2008, "Color universal design", which the color-blind can tell
# apart; and markers for those who see no colors at all.
_COLOURS = ("#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
_MARKERS = "osD^vPX"


def draw_growth(rows, title):
    """Returns the picture of time and memory by length as the bytes of a PNG file.

    Args:
        rows: of `measure_growth`.
        title: what was measured where.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The settings of the user's own matplotlibrc are for other pictures.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(15, 7), dpi=100, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
        figure.suptitle(title, fontsize=14, fontweight="bold", parse_math=False)
        left, right = figure.subplots(1, 2)
        _draw_panel(left, rows, "value", "seconds, forward and backward")
        _draw_panel(right, rows, "added_mb", "MB of memory at the peak, above the process' own")
        content = io.BytesIO()
        FigureCanvasAgg(figure).print_png(content)
    return content.getvalue()


def _draw_panel(axes, rows, field, what):
    """Draws a line through the points of each mechanism; the legend has the exponents."""
    for number, (mechanism, points) in enumerate(group_by_mechanism(rows).items()):
        x, y = coordinates(points, field)
        fitted = [(a, b) for a, b in zip(x, y, strict=True) if FITTED[0] <= a <= FITTED[1]]
        label = mechanism
        if len(fitted) > 1:
            label += f"  {PowerLaw.fit(*zip(*fitted, strict=True)).exponent:.2f}"
        axes.loglog(
            x,
            y,
            color=_COLOURS[number % len(_COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            linewidth=2,
            markersize=7,
            label=label,
        )
    lengths = sorted({row["x"] for row in rows})
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_xlabel("tokens")
    axes.set_ylabel(what)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(
        frameon=False,
        loc="upper left",
        title=f"exponent from {FITTED[0]:,} tokens on",
        alignment="left",
    )
