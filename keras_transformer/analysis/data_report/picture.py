"""The data report as a picture: lengths, bucket shapes, the vocabulary's use, padding."""

import io
import os
import warnings

import numpy as np

# From the palette of Okabe and Ito 2008, "Color universal design", which the color-blind can tell
# apart.
_BLUE, _ORANGE, _GREEN, _BLACK = "#0072B2", "#E69F00", "#009E73", "#000000"
_COLUMN_COLOURS = (_BLUE, _ORANGE)
_LONGEST_TITLE = 90


def draw_data_report(report):
    """Returns the picture of a report as the bytes of a PNG file.

    Args:
        report: from `make_data_report`, or `report.json` read again.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The settings of the user's own matplotlibrc are for other pictures.
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        # File names may have letters that the font has not; a box in the title is no reason to
        # speak.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        figure = Figure(figsize=(13, 9.5), dpi=110, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        figure.suptitle(_title(report), fontsize=14, fontweight="bold", parse_math=False)
        upper_left, upper_right, lower_left, lower_right = figure.subplots(2, 2).flat
        _draw_histograms(upper_left, report)
        if report["lengths"]["joint_histogram"]:
            _draw_shapes(figure, upper_right, report)
        else:
            _draw_widths(upper_right, report)
        _draw_rank_frequency(lower_left, report)
        _draw_padding(lower_right, report)
        for axes in (upper_left, lower_left, lower_right):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.25)
            axes.set_axisbelow(True)
        content = io.BytesIO()
        FigureCanvasAgg(figure).print_png(content)
    return content.getvalue()


def _title(report):
    names = ", ".join(os.path.basename(file) for file in report["files"])
    if len(names) > _LONGEST_TITLE:
        names = names[: _LONGEST_TITLE - 1] + "…"
    kind = "pairs" if len(report["lengths"]["columns"]) == 2 else "examples"
    # Surrogates stand for bytes of a file name that are not UTF-8; they cannot be drawn.
    names = names.encode(errors="replace").decode()
    return f"{names}: {report['corpus']['examples']:,} {kind}"


def _draw_histograms(axes, report):
    histogram = report["lengths"]["histogram"]
    width = histogram["bin_width"]
    for color, (name, counts) in zip(_COLUMN_COLOURS, histogram["counts"].items(), strict=False):
        edges = np.arange(len(counts)) * width + 0.5
        median = report["lengths"]["columns"][name]["median"]
        label = f"{name}, median {median:,}"
        axes.stairs(counts[:-1], edges, fill=True, color=color, alpha=0.35)
        axes.stairs(counts[:-1], edges, color=color, linewidth=1.5, label=label)
    beyond = sum(counts[-1] for counts in histogram["counts"].values())
    texts = "texts" if width == 1 else f"texts in a bin of {width} lengths"
    _label(axes, "How long the texts are", "tokens", texts)
    axes.legend(title=f"not shown, longer: {beyond:,}" if beyond else None, frameon=False)


def _draw_shapes(figure, axes, report):
    """Draws how often the lengths of both sides meet, and the buckets that hold them."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    width = report["lengths"]["histogram"]["bin_width"]
    counts = np.array(report["lengths"]["joint_histogram"])[:-1, :-1]
    edge = len(counts) * width
    # Bucket widths count END; the lengths here do not.
    image = axes.imshow(
        np.ma.masked_equal(counts.T, 0),
        origin="lower",
        extent=(0.5, edge + 0.5, 0.5, edge + 0.5),
        cmap="Blues",
        norm=LogNorm(0.3, max(counts.max(), 2)),
        aspect="auto",
        interpolation="nearest",
    )
    for bucket in report["padding"]["default"]["buckets"]:
        source, target = bucket["widths"]
        corner = (source - 0.5, target - 0.5)
        axes.add_patch(Rectangle((0, 0), *corner, fill=False, color=_BLACK, lw=0.6, alpha=0.5))
    corners = np.array([bucket["widths"] for bucket in report["padding"]["default"]["buckets"]])
    label = f"{len(corners)} shapes of batches"
    axes.plot(*(corners.T - 0.5), "o", markersize=4.5, color=_ORANGE, mec=_BLACK, label=label)
    axes.legend(loc="lower right")
    axes.set_xlim(0.5, edge + 0.5)
    axes.set_ylim(0.5, edge + 0.5)
    figure.colorbar(image, ax=axes, label="pairs", pad=0.02)
    _label(axes, "Lengths of both sides, and what holds them", "source tokens", "target tokens")


def _draw_widths(axes, report):
    """Draws, for one column, the share of texts up to each length, and the buckets' widths."""
    histogram = report["lengths"]["histogram"]
    (counts,) = histogram["counts"].values()
    lengths = np.arange(len(counts)) * histogram["bin_width"]
    shares = np.concatenate([[0], np.cumsum(counts[:-1]) / sum(counts)])
    axes.plot(lengths, shares * 100, color=_BLUE, linewidth=2)
    for bucket in report["padding"]["default"]["buckets"]:
        axes.axvline(bucket["widths"][0] - 1, color=_BLACK, linewidth=0.7, alpha=0.5)
    axes.set_xlim(0, lengths[-1])
    axes.set_ylim(0, 103)
    _label(axes, "Texts up to each length; lines: widths of batches", "tokens", "texts in %")


def _draw_rank_frequency(axes, report):
    for color, part in zip(_COLUMN_COLOURS, report["vocabularies"], strict=False):
        ranks = part["rank_frequency"]
        label = f"{' and '.join(part['columns'])}: {part['used_share']:.1%} of the pieces occur"
        axes.loglog(ranks["ranks"], ranks["counts"], color=color, linewidth=2, label=label)
    _label(axes, "How often pieces occur", "rank of the piece", "occurrences")
    axes.legend(frameon=False, loc="lower left")


def _draw_padding(axes, report):
    settings = [part for part in report["padding"]["settings"] if "max_buckets" in part]
    default = report["padding"]["default"]
    numbers = np.array([part["max_buckets"] for part in settings])
    shares = np.array([part["efficiency"] * 100 for part in settings])
    axes.plot(numbers, shares, color=_BLUE, linewidth=2, marker="o")
    is_default = numbers == default["max_buckets"]
    label = f"default: {default['efficiency']:.1%}"
    axes.plot(
        numbers[is_default], shares[is_default], "o", color=_ORANGE, markersize=11, label=label
    )
    for part in report["padding"]["settings"]:
        if "packed_width" in part:
            label = f"packed: {part['efficiency']:.1%}"
            axes.axhline(part["efficiency"] * 100, color=_GREEN, linestyle="--", label=label)
    for number, share in zip(numbers, shares, strict=True):
        # The line leaves the first one upwards: its number stands beside it.
        offset, side = ((9, -4), "left") if number == 1 else ((0, 9), "center")
        axes.annotate(f"{share:.0f}", (number, share), offset, textcoords="offset points", ha=side)
    axes.set_ylim(0, 108)
    axes.set_xticks(numbers)
    _label(axes, "Padding efficiency", "number of buckets", "tokens in % of all slots")
    axes.legend(frameon=False, loc="lower right")


def _label(axes, title, x, y):
    axes.set_title(title, fontsize=12)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
