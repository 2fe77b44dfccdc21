"""The data report as a picture: lengths, bucket shapes, frequencies of pieces, padding."""

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer._utils.pictures import COLORS, draw_png, simplify_axes
from keras_transformer.data.corpora.text_file import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREEN, _BLACK = COLORS[0], COLORS[4], COLORS[2], COLORS[6]
_COLUMN_COLORS = (_BLUE, _ORANGE)
_LONGEST_TITLE = 90


def draw_data_report(report: Mapping[str, Any]) -> bytes:
    """Returns the picture of a report as the bytes of a PNG file.

    Args:
        report: Result of `make_data_report`, or the content of `report.json`.
    """

    def draw(figure: "Figure") -> None:
        upper_left, upper_right, lower_left, lower_right = figure.subplots(2, 2).flat
        _draw_histograms(upper_left, report)
        if report["lengths"]["joint_histogram"]:
            _draw_shapes(figure, upper_right, report)
        else:
            _draw_lengths(upper_right, report)
        _draw_rank_frequency(lower_left, report)
        _draw_padding(lower_right, report)
        for axes in (upper_left, lower_left, lower_right):
            simplify_axes(axes)

    with warnings.catch_warnings():
        # File names may have letters that the font lacks; the title then shows a box.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        return draw_png(draw, (13, 9.5), dpi=110, padding=(0.12, 0.12), title=_title(report))


def _title(report: Mapping[str, Any]) -> str:
    names = shorten(", ".join(map(os.path.basename, report["files"])), _LONGEST_TITLE)
    noun = "pairs" if len(report["lengths"]["columns"]) == 2 else "examples"
    # Surrogates stand for bytes of a file name that are not UTF-8; they cannot be drawn.
    names = names.encode(errors="replace").decode()
    return f"{names}: {report['corpus']['examples']:,} {noun}"


def _draw_histograms(axes: "Axes", report: Mapping[str, Any]) -> None:
    histogram = report["lengths"]["histogram"]
    width = histogram["bin_width"]
    for color, (name, counts) in zip(_COLUMN_COLORS, histogram["counts"].items(), strict=False):
        edges = np.arange(len(counts)) * width + 0.5
        median = report["lengths"]["columns"][name]["median"]
        label = f"{name}, median {median:,}"
        axes.stairs(counts[:-1], edges, fill=True, color=color, alpha=0.35)
        axes.stairs(counts[:-1], edges, color=color, linewidth=1.5, label=label)
    beyond = sum(counts[-1] for counts in histogram["counts"].values())
    texts = "texts" if width == 1 else f"texts in a bin of {width} lengths"
    _label(axes, "Lengths of the texts", "tokens", texts)
    axes.legend(title=f"longer, not shown: {beyond:,}" if beyond else None, frameon=False)


def _draw_shapes(figure: "Figure", axes: "Axes", report: Mapping[str, Any]) -> None:
    """Draws the joint distribution of both lengths, and the buckets."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    width = report["lengths"]["histogram"]["bin_width"]
    counts = np.array(report["lengths"]["joint_histogram"])[:-1, :-1]
    edge = len(counts) * width
    # The lengths of buckets include the end token; the lengths of texts do not.
    image = axes.imshow(
        np.ma.masked_equal(counts.T, 0),
        origin="lower",
        extent=(0.5, edge + 0.5, 0.5, edge + 0.5),
        cmap="Blues",
        norm=LogNorm(0.3, max(counts.max(), 2)),
        aspect="auto",
        interpolation="nearest",
    )
    corners = np.array([part["lengths"] for part in report["padding"]["default"]["buckets"]]) - 0.5
    for source, target in corners:
        patch = Rectangle((0, 0), source, target, fill=False, color=_BLACK, lw=0.6, alpha=0.5)
        axes.add_patch(patch)
    beyond = int((corners > edge + 0.5).any(axis=1).sum())
    label = f"{len(corners)} buckets" + f", {beyond} beyond the axes" * (beyond > 0)
    axes.plot(*corners.T, "o", markersize=4.5, color=_ORANGE, mec=_BLACK, label=label)
    axes.legend(loc="lower right")
    axes.set_xlim(0.5, edge + 0.5)
    axes.set_ylim(0.5, edge + 0.5)
    figure.colorbar(image, ax=axes, label="pairs", pad=0.02)
    _label(axes, "Lengths of both sides, and buckets", "source tokens", "target tokens")


def _draw_lengths(axes: "Axes", report: Mapping[str, Any]) -> None:
    """Draws, for one column, the share of texts up to each length, and the buckets."""
    histogram = report["lengths"]["histogram"]
    (counts,) = histogram["counts"].values()
    lengths = np.arange(len(counts)) * histogram["bin_width"]
    shares = np.concatenate([[0], np.cumsum(counts[:-1]) / sum(counts)])
    axes.plot(lengths, shares * 100, color=_BLUE, linewidth=2)
    for bucket in report["padding"]["default"]["buckets"]:
        axes.axvline(bucket["lengths"][0] - 1, color=_BLACK, linewidth=0.7, alpha=0.5)
    axes.set_xlim(0, lengths[-1])
    axes.set_ylim(0, 103)
    _label(axes, "Share of texts up to each length; lines: buckets", "tokens", "texts in %")


def _draw_rank_frequency(axes: "Axes", report: Mapping[str, Any]) -> None:
    for color, part in zip(_COLUMN_COLORS, report["vocabularies"], strict=False):
        ranks = part["rank_frequency"]
        label = f"{' and '.join(part['columns'])}: {part['used_share']:.1%} of the pieces occur"
        axes.loglog(ranks["ranks"], ranks["counts"], color=color, linewidth=2, label=label)
    _label(axes, "Frequencies of the pieces", "rank of the piece", "occurrences")
    axes.legend(frameon=False, loc="lower left")


def _draw_padding(axes: "Axes", report: Mapping[str, Any]) -> None:
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
        if "row_length" in part:
            label = f"packed: {part['efficiency']:.1%}"
            axes.axhline(part["efficiency"] * 100, color=_GREEN, linestyle="--", label=label)
    for number, share in zip(numbers, shares, strict=True):
        # The line rises from the first point: its number is beside it.
        offset, side = ((9, -4), "left") if number == 1 else ((0, 9), "center")
        axes.annotate(f"{share:.0f}", (number, share), offset, textcoords="offset points", ha=side)
    axes.set_ylim(0, 108)
    axes.set_xticks(numbers)
    _label(axes, "Padding efficiency", "number of buckets", "tokens in % of all slots")
    axes.legend(frameon=False, loc="lower right")


def _label(axes: "Axes", title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=12)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
