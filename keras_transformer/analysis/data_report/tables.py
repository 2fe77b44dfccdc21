"""The data report as text: on a terminal, in a file or in a pipe."""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_transformer._utils.console import is_plain, print_table, shown
from keras_transformer.analysis.data_report.statistics import LEARNABLE_COUNT

if TYPE_CHECKING:
    from rich.console import Console

_HISTOGRAM_ROWS = 12
_BAR_CELLS = 24


class ReportTable(NamedTuple):
    """A table to print, whose first `left` columns are aligned left and the others right."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 0


def make_tables(report: Mapping[str, Any], bar: str) -> Iterator[ReportTable]:
    """Yields the tables of a report, in the order in which they are printed.

    Args:
        report: Result of `make_data_report`.
        bar: The character that bars consist of.
    """
    yield _counts(report)
    yield _lengths(report)
    yield _histogram(report["lengths"]["histogram"], bar)
    for vocabulary in report["vocabularies"]:
        yield _vocabulary(vocabulary, report["lines"]["columns"])
    yield _padding(report["padding"], report["settings"])
    yield _batches(report["padding"]["default"], report["lengths"]["columns"])


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
    rows = [
        (
            f"{column}, {unit}",
            *(format(lengths[column][key], form) for key, form in formats.items()),
        )
        for unit, lengths in units.items()
        for column in report["lengths"]["columns"]
    ]
    headings = ("", "shortest", "median", "mean", "99 %", "longest")
    return ReportTable("Lengths", headings, rows, left=1)


def _histogram(histogram: Mapping[str, Any], bar: str) -> ReportTable:
    labels, shares = _joined_bins(histogram)
    largest = max(map(max, shares.values()))
    rows = [
        (label, *(f"{share:>6.1%} {bar * round(_BAR_CELLS * share / largest)}" for share in row))
        for label, *row in zip(labels, *shares.values(), strict=True)
    ]
    title = "Distribution of lengths in tokens"
    return ReportTable(title, ("tokens", *shares), rows, left=1 + len(shares))


def _joined_bins(histogram: Mapping[str, Any]) -> tuple[list[str], dict[str, list[float]]]:
    """Returns labels of about 12 rows, the last for the rest, and each column's shares."""
    width, columns = histogram["bin_width"], histogram["counts"]
    bins = len(next(iter(columns.values()))) - 1
    joined = -(-bins // _HISTOGRAM_ROWS)
    groups = [range(first, min(first + joined, bins)) for first in range(0, bins, joined)]
    ends = [(group[0] * width + 1, (group[-1] + 1) * width) for group in groups]
    labels = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in ends]
    shares = {
        column: [sum(counts[n] for n in group) / sum(counts) for group in [*groups, [bins]]]
        for column, counts in columns.items()
    }
    return [*labels, f"{bins * width + 1} or more"], shares


def _vocabulary(part: Mapping[str, Any], rates: Mapping[str, Any]) -> ReportTable:
    requested = f" of {part['requested_size']:,} requested" if part["requested_size"] else ""
    rows = [("ids", f"{part['size']:,}{requested}")]
    for column in part["columns"]:
        rows += [
            (f"tokens per word, {column}", f"{rates[column]['tokens_per_word']:.2f}"),
            (f"characters per token, {column}", f"{rates[column]['characters_per_token']:.2f}"),
        ]
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
    title = (
        f"Padding in batches of at most {settings['tokens']:,} tokens per side, with sequences of "
        f"at most {settings['max_length']:,}"
    )
    headings = ("buckets", "shapes", "batches per epoch", "efficiency", "padding")
    rows = [
        (
            _setting_name(part, padding["default"]["max_buckets"]),
            f"{part['shapes']:,}",
            f"{part['batches']:,}",
            f"{part['efficiency']:.1%}",
            f"{1 - part['efficiency']:.1%}",
        )
        for part in padding["settings"]
    ]
    return ReportTable(title, headings, rows)


def _setting_name(part: Mapping[str, Any], default: int) -> str:
    if "row_length" in part:
        return f"packed, rows of {part['row_length']}"
    return f"(default) {default}" if part["max_buckets"] == default else str(part["max_buckets"])


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
        console: A `rich.console.Console`.
    """
    line = functools.partial(_print_line, console)
    line("Data report", style="bold")
    line(f"training: {', '.join(report['files'])}")
    if report["validation_files"]:
        line(f"validation: {', '.join(report['validation_files'])}")
    bar = "█" if console.encoding.lower().startswith("utf") else "#"
    for table in make_tables(report, bar):
        _print_heading(console, table.title)
        right = range(table.left, len(table.headings))
        print_table(console, table.headings, table.rows, right=right)
    sample = report["lines"]["sample"]
    every = "all" if sample["every"] == 1 else f"one in {sample['every']:,}"
    sections = {
        "Notes": _notes(report),
        "Speed": _speed(report),
        "Longest lines": itertools.chain.from_iterable(
            map(_describe_line, report["lines"]["longest"])
        ),
        f"Odd lines among {sample['examples']:,} examined ({every})": _odd(report["lines"]["odd"]),
    }
    for title, lines in sections.items():
        _print_heading(console, title)
        for content in lines:
            line(content)
    _print_heading(console, "Warnings")
    for warning in report["warnings"]:
        line(f"  {warning}", style="yellow")
    if not report["warnings"]:
        line("  none")


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
