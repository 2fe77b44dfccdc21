"""The data report as text, for terminals and pipes, and as a picture."""

import functools
import itertools
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_transformer._utils.console import is_plain, print_table, shown
from keras_transformer._utils.pictures import COLORS, draw_png, simplify_axes
from keras_transformer.analysis.data_report.statistics import LEARNABLE_COUNT
from keras_transformer.data.corpora.file_corpus import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

_HISTOGRAM_ROWS = 12
_BAR_CELLS = 24


class ReportTable(NamedTuple):
    """A table to print, whose first `left` columns are aligned left and the others right."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 0


def _counts(report: Mapping[str, Any]) -> ReportTable:
    checked = {"training": report["corpus"]}
    if report["validation"]:
        checked["validation"] = report["validation"]
    are_exact = all(part["duplicates_are_exact"] for part in checked.values())
    has_sides = report["columns"] == ["source", "target"]
    names = {
        "pairs" if has_sides else "examples": "examples",
        "blank lines (skipped)": "blank_lines",
        "bad lines (skipped)": "bad_lines",
        "too many characters (skipped)": "too_long",
        "byte sequences replaced by U+FFFD": "replacements",
        "NUL characters removed": "nul_characters",
        "duplicates" if are_exact else "duplicates, at least": "duplicates",
    }
    if has_sides:
        names["identical sides"] = "identical_sides"
    rows = [(name, *(f"{part[key]:,}" for part in checked.values())) for name, key in names.items()]
    if report["overlap"] is not None:
        rows.append(("examples also in training", "", f"{report['overlap']:,}"))
    return ReportTable("Counts", ("", *checked), rows, left=1)


def _lengths(report: Mapping[str, Any]) -> ReportTable:
    units = {"tokens": report["lengths"]["columns"], "characters": report["corpus"]["lengths"]}
    formats = dict.fromkeys(("minimum", "median", "mean", "percentile_99", "maximum"), ",")
    formats["mean"] = ",.1f"
    rows = []
    for unit, lengths in units.items():
        for column in report["lengths"]["columns"]:
            numbers = (format(lengths[column][key], form) for key, form in formats.items())
            rows.append((f"{column}, {unit}", *numbers))
    headings = ("", "shortest", "median", "mean", "99 %", "longest")
    return ReportTable("Lengths", headings, rows, left=1)


def _histogram(histogram: Mapping[str, Any], bar: str) -> ReportTable:
    """Returns a table of about 12 bins, each joined from several, and of the rest."""
    width, columns = histogram["bin_width"], histogram["counts"]
    bins = len(next(iter(columns.values()))) - 1
    joined = -(-bins // _HISTOGRAM_ROWS)
    groups = [range(first, min(first + joined, bins)) for first in range(0, bins, joined)]
    ends = [(group[0] * width + 1, (group[-1] + 1) * width) for group in groups]
    labels = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in ends]
    labels.append(f"{bins * width + 1} or more")
    shares = {
        column: [sum(counts[n] for n in group) / sum(counts) for group in [*groups, [bins]]]
        for column, counts in columns.items()
    }
    largest = max(map(max, shares.values()))
    rows = [
        (label, *(f"{share:>6.1%} {bar * round(_BAR_CELLS * share / largest)}" for share in row))
        for label, *row in zip(labels, *shares.values(), strict=True)
    ]
    title = "Distribution of lengths in tokens"
    return ReportTable(title, ("tokens", *shares), rows, left=1 + len(shares))


def _vocabulary(part: Mapping[str, Any], rates: Mapping[str, Any]) -> ReportTable:
    requested = f" of {part['requested_size']:,} requested" if part["requested_size"] else ""
    rows = [("ids", f"{part['size']:,}{requested}")]
    for column in part["columns"]:
        for rate in ("tokens_per_word", "characters_per_token"):
            rows.append((f"{rate.replace('_', ' ')}, {column}", f"{rates[column][rate]:.2f}"))
    used = f"{part['used_pieces']:,} of {part['pieces']:,} ({part['used_share']:.1%})"
    rows += [
        ("pieces that occur", used),
        (f"pieces that occur at least {LEARNABLE_COUNT} times", f"{part['learnable_share']:.1%}"),
        ("unknown, share of tokens", f"{part['unknown_share']:.3%}"),
    ]
    if part["byte_fallback_share"] is not None:
        rows.append(("spelled in bytes, share of tokens", f"{part['byte_fallback_share']:.3%}"))
    unseen = part["validation_tokens_unseen_share"]
    if unseen is not None:
        rows.append(("validation tokens not in training", f"{unseen:.3%}"))
    title = f"Vocabulary of {' and '.join(part['columns'])}"
    return ReportTable(title, ("", part["kind"]), rows, left=1)


def _padding(padding: Mapping[str, Any], settings: Mapping[str, Any]) -> ReportTable:
    limits = f"{settings['tokens']:,} tokens per side, with sequences of at most "
    title = f"Padding in batches of at most {limits}{settings['max_length']:,}"
    headings = ("buckets", "shapes", "batches per epoch", "efficiency", "padding")
    default, rows = padding["default"]["max_buckets"], []
    for part in padding["settings"]:
        if "row_length" in part:
            name = f"packed, rows of {part['row_length']}"
        else:
            name = "(default) " * (part["max_buckets"] == default) + str(part["max_buckets"])
        numbers = f"{part['shapes']:,}", f"{part['batches']:,}"
        shares = f"{part['efficiency']:.1%}", f"{1 - part['efficiency']:.1%}"
        rows.append((name, *numbers, *shares))
    return ReportTable(title, headings, rows)


def _batches(default: Mapping[str, Any], columns: Iterable[str]) -> ReportTable:
    title = f"Batches with the default, {default['max_buckets']} buckets"
    headings = ("rows", " × ".join(columns), "batches", "examples", "efficiency")
    rows = [
        (
            f"{part['rows']:,}",
            " × ".join(map(str, part["lengths"])),
            f"{part['batches']:,}",
            f"{part['examples']:,}",
            f"{part['efficiency']:.1%}" if part["batches"] else "",
        )
        for part in default["buckets"]
    ]
    return ReportTable(title, headings, rows)


def print_data_report(report: Mapping[str, Any], console: "Console") -> None:
    """Prints a report: tables with rules on a terminal, plain columns elsewhere.

    Args:
        report: Result of `make_data_report`.
        console: A rich console.
    """
    line = functools.partial(_print_line, console)
    line("Data report", style="bold")
    line(f"training: {', '.join(report['files'])}")
    if report["validation_files"]:
        line(f"validation: {', '.join(report['validation_files'])}")
    bar = "█" if console.encoding.lower().startswith("utf") else "#"
    for table in (
        _counts(report),
        _lengths(report),
        _histogram(report["lengths"]["histogram"], bar),
        *(_vocabulary(part, report["lines"]["columns"]) for part in report["vocabularies"]),
        _padding(report["padding"], report["settings"]),
        _batches(report["padding"]["default"], report["lengths"]["columns"]),
    ):
        _print_heading(console, table.title)
        right = range(table.left, len(table.headings))
        print_table(console, table.headings, table.rows, right=right)
    sample = report["lines"]["sample"]
    every = "all" if sample["every"] == 1 else f"one in {sample['every']:,}"
    sections = {
        "Notes": _notes(report),
        "Speed": _speed(report),
        "Longest lines": itertools.chain(*map(_describe_line, report["lines"]["longest"])),
        f"Odd lines among {sample['examples']:,} examined ({every})": _odd(report["lines"]["odd"]),
    }
    for title, lines in sections.items():
        _print_heading(console, title)
        for content in lines:
            line(content)
    _print_heading(console, "Warnings")
    for warning in report["warnings"] or ["none"]:
        line(f"  {warning}", style="yellow" if report["warnings"] else "")


def _print_heading(console: "Console", title: str) -> None:
    console.print()
    _print_line(console, title, style="bold")


# Indentation of the texts of examples.
_TEXT_INDENT = " " * 8


def _print_line(console: "Console", text: str, style: str = "") -> None:
    from rich.text import Text

    styled = Text(shown(text), style)
    # Only texts of examples are cut to the width: a pipe gets all other lines complete.
    if text.startswith(_TEXT_INDENT):
        console.print(styled, no_wrap=True, overflow="ellipsis")
    else:
        console.print(styled, soft_wrap=is_plain(console))


def _notes(report: Mapping[str, Any]) -> Iterator[str]:
    ratio = report["lines"]["target_tokens_per_source_token"]
    if ratio:
        yield (
            f"  Target tokens per source token: median {ratio['median']:.2f}; "
            f"{ratio['percentile_1']:.2f} to {ratio['percentile_99']:.2f} in 98 % of the pairs."
        )
    for part in report["vocabularies"]:
        rarest = (f"{rare['piece']} {rare['count']:,}" for rare in part["rarest_pieces"])
        columns = " and ".join(part["columns"])
        yield f"  Rarest pieces that occur in {columns}: {', '.join(rarest)}."
    yield (
        "  Rule of thumb: use the largest vocabulary of which 95 % of the pieces occur at "
        f"least {LEARNABLE_COUNT} times (Gowda and May 2020)."
    )


def _speed(report: Mapping[str, Any]) -> Iterator[str]:
    tokenizing, iterating = report["tokenizing"], report["padding"]["iterating"]
    if tokenizing:
        speed = f"{tokenizing['sentences_per_second']:,.0f} sentences/s"
        yield f"  Tokenizing, including reading and writing: {speed}."
    else:
        yield "  Tokenizing: not measured, because the tokenized corpus existed already."
    side = "target " if "target" in report["columns"] else ""
    yield (
        f"  Iterating batches: {iterating['batches_per_second']:,.0f} batches/s, "
        f"{iterating['sentences_per_second']:,.0f} sentences/s, "
        f"{iterating['tokens_per_second']:,.0f} {side}tokens/s."
    )


def _odd(oddities: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    described: set[str] = set()
    for oddity in oddities:
        usual = ": more than 1 in 20, normal here and not listed" * oddity["is_usual"]
        yield f"  {oddity['kind']}: {oddity['count']:,} ({oddity['meaning']}){usual}"
        for line in oddity["lines"]:
            if line["place"] in described:
                yield f"    {line['place']}  as above"
            else:
                yield from _describe_line(line)
            described.add(line["place"])


def _describe_line(line: Mapping[str, Any]) -> Iterator[str]:
    tokens = ", ".join(f"{column} {number:,}" for column, number in line["tokens"].items())
    yield f"    {line['place']}  tokens: {tokens}"
    for text in line["texts"].values():
        yield _TEXT_INDENT + text


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
    axes.set(xlim=(0.5, edge + 0.5), ylim=(0.5, edge + 0.5))
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
    axes.set(xlim=(0, lengths[-1]), ylim=(0, 103))
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
    axes.set(xlabel=x, ylabel=y)
