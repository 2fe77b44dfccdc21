"""The data report as a person reads it: in a terminal, a file or a pipe."""

import dataclasses

from rich import box
from rich.table import Table
from rich.text import Text

from keras_transformer._utils.console import shown
from keras_transformer.analysis.data_report.statistics import LEARNABLE_COUNT

_HISTOGRAM_ROWS = 12
_BAR_CELLS = 24


@dataclasses.dataclass(frozen=True)
class ReportTable:
    """A table to print.

    Attributes:
        title: what it shows.
        headings: of the columns.
        rows: tuples of strings, as long as `headings`.
        left: how many of the columns stand left; those of numbers stand right.
    """

    title: str
    headings: tuple
    rows: tuple
    left: int = 0


def make_tables(report, bar):
    """Yields the tables of a report, in the order in which they are printed.

    Args:
        report: from `make_data_report`.
        bar: the character that bars are made of.
    """
    yield _counts(report)
    yield _lengths(report)
    yield _histogram(report["lengths"]["histogram"], bar)
    for vocabulary in report["vocabularies"]:
        yield _vocabulary(vocabulary, report["lines"]["columns"])
    yield _padding(report["padding"], report["settings"])
    yield _batches(report["padding"]["default"], list(report["lengths"]["columns"]))


def _counts(report):
    checked = {"training": report["corpus"]}
    if report["validation"]:
        checked["validation"] = report["validation"]
    are_exact = all(part["duplicates_are_exact"] for part in checked.values())
    has_sides = report["columns"] == ["source", "target"]
    names = {
        "pairs" if has_sides else "examples": "examples",
        "blank lines, skipped": "blank_lines",
        "bad lines, skipped": "bad_lines",
        "too many characters, skipped": "too_long",
        "byte sequences that became U+FFFD": "replacements",
        "NUL characters, taken out": "nul_characters",
        "duplicates" if are_exact else "duplicates, at least": "duplicates",
    }
    if has_sides:
        names["identical sides"] = "identical_sides"
    rows = [(name, *(f"{part[key]:,}" for part in checked.values())) for name, key in names.items()]
    if report["overlap"] is not None:
        rows.append(("also in the training corpus", "", f"{report['overlap']:,}"))
    return ReportTable("Counts", ("", *checked), tuple(rows), left=1)


def _lengths(report):
    units = {"tokens": report["lengths"]["columns"], "characters": report["corpus"]["lengths"]}
    rows = []
    for unit, lengths in units.items():
        for column in report["lengths"]["columns"]:
            part = lengths[column]
            row = (
                f"{column}, {unit}",
                f"{part['minimum']:,}",
                f"{part['median']:,}",
                f"{part['mean']:,.1f}",
                f"{part['percentile_99']:,}",
                f"{part['maximum']:,}",
            )
            rows.append(row)
    headings = ("", "shortest", "median", "mean", "99 %", "longest")
    return ReportTable("Lengths", headings, tuple(rows), left=1)


def _histogram(histogram, bar):
    labels, shares = _joined_bins(histogram)
    largest = max(map(max, shares.values()))
    rows = []
    for label, *row in zip(labels, *shares.values(), strict=True):
        bars = [bar * round(_BAR_CELLS * share / largest) for share in row]
        cells = (f"{share:>6.1%} {drawn}" for share, drawn in zip(row, bars, strict=True))
        rows.append((label, *cells))
    title = "How many texts have so many tokens"
    return ReportTable(title, ("tokens", *shares), tuple(rows), left=1 + len(shares))


def _joined_bins(histogram):
    """Returns labels for about 12 rows, the last for the rest, and each column's shares."""
    width, columns = histogram["bin_width"], histogram["counts"]
    bins = len(next(iter(columns.values()))) - 1
    joined = -(-bins // _HISTOGRAM_ROWS)
    groups = [range(first, min(first + joined, bins)) for first in range(0, bins, joined)]
    labels = [_range(group[0] * width + 1, (group[-1] + 1) * width) for group in groups]
    shares = {
        column: [sum(counts[n] for n in group) / sum(counts) for group in [*groups, [bins]]]
        for column, counts in columns.items()
    }
    return [*labels, f"{bins * width + 1} or more"], shares


def _range(first, last):
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _vocabulary(part, rates):
    asked = f", {part['asked_size']:,} asked for" if part["asked_size"] else ""
    rows = [("ids", f"{part['size']:,}{asked}")]
    for column in part["columns"]:
        rows += [
            (f"tokens per word, {column}", f"{rates[column]['tokens_per_word']:.2f}"),
            (f"characters per token, {column}", f"{rates[column]['characters_per_token']:.2f}"),
        ]
    used = f"{part['used_pieces']:,} of {part['pieces']:,} ({part['used_share']:.1%})"
    rows += [
        ("pieces that occur", used),
        (f"pieces that occur {LEARNABLE_COUNT} times or more", f"{part['learnable_share']:.1%}"),
        ("unknown words, share of tokens", f"{part['unknown_share']:.3%}"),
    ]
    if part["byte_fallback_share"] is not None:
        rows.append(("spelt in bytes, share of tokens", f"{part['byte_fallback_share']:.3%}"))
    unseen = part["validation_tokens_unseen_share"]
    if unseen is not None:
        rows.append(("validation tokens never seen in training", f"{unseen:.3%}"))
    title = f"Vocabulary of {' and '.join(part['columns'])}"
    return ReportTable(title, ("", part["kind"]), tuple(rows), left=1)


def _padding(padding, settings):
    title = (
        f"Padding in batches of up to {settings['tokens']:,} tokens a side, with sequences of up "
        f"to {settings['max_length']:,}"
    )
    headings = ("buckets", "shapes", "batches an epoch", "efficiency", "padding")
    rows = tuple(
        (
            _setting_name(part, padding["default"]["max_buckets"]),
            f"{part['shapes']:,}",
            f"{part['batches']:,}",
            f"{part['efficiency']:.1%}",
            f"{1 - part['efficiency']:.1%}",
        )
        for part in padding["settings"]
    )
    return ReportTable(title, headings, rows)


def _setting_name(part, default):
    if "packed_width" in part:
        return f"packed, rows of {part['packed_width']}"
    return f"(default) {default}" if part["max_buckets"] == default else str(part["max_buckets"])


def _batches(default, columns):
    title = f"Batches of the default setting, {default['max_buckets']} buckets"
    headings = ("rows", " × ".join(columns), "batches", "examples", "efficiency")
    rows = tuple(
        (
            f"{part['rows']:,}",
            " × ".join(map(str, part["widths"])),
            f"{part['batches']:,}",
            f"{part['examples']:,}",
            f"{part['efficiency']:.1%}" if part["batches"] else "",
        )
        for part in default["buckets"]
    )
    return ReportTable(title, headings, rows)


def print_data_report(report, console):
    """Prints a report: tables with rules on a terminal, plain columns elsewhere.

    Args:
        report: from `make_data_report`.
        console: a `rich.console.Console`.
    """
    _ReportPrinter(report, console).print()


class _ReportPrinter:
    def __init__(self, report, console):
        self._report = report
        self._console = console
        self._is_plain = not console.is_terminal or console.is_dumb_terminal

    def print(self):
        self._print_files()
        bar = "█" if self._console.encoding.lower().startswith("utf") else "#"
        for table in make_tables(self._report, bar):
            self._print_table(table)
        self._print_notes()
        self._print_speed()
        self._print_longest()
        self._print_odd()
        self._print_warnings()

    def _print_files(self):
        self._line("Data report", style="bold")
        self._line(f"training: {', '.join(self._report['files'])}")
        if self._report["validation_files"]:
            self._line(f"validation: {', '.join(self._report['validation_files'])}")

    def _print_table(self, content):
        self._heading(content.title)
        table = Table(box=None if self._is_plain else box.ROUNDED, pad_edge=not self._is_plain)
        for number, heading in enumerate(content.headings):
            side = "left" if number < content.left else "right"
            table.add_column(heading, justify=side, no_wrap=True)
        for row in content.rows:
            table.add_row(*map(Text, row))
        self._console.print(table)

    def _print_notes(self):
        self._heading("Notes")
        ratio = self._report["lines"]["target_tokens_per_source_token"]
        if ratio:
            self._line(
                f"  Target tokens per source token: {ratio['median']:.2f} in the middle, "
                f"{ratio['percentile_1']:.2f} to {ratio['percentile_99']:.2f} in 98 % of the pairs."
            )
        for part in self._report["vocabularies"]:
            rarest = (f"{rare['piece']} {rare['count']:,}" for rare in part["rarest_pieces"])
            columns = " and ".join(part["columns"])
            self._line(f"  Rarest pieces that occur in {columns}: {', '.join(rarest)}.")
        self._line(
            "  Rule of thumb: take the largest vocabulary of which 95 % of the pieces occur "
            f"{LEARNABLE_COUNT} times or more (Gowda and May 2020)."
        )

    def _print_speed(self):
        tokenizing, iterating = self._report["tokenizing"], self._report["padding"]["iterating"]
        self._heading("Speed")
        if tokenizing:
            self._line(
                f"  Tokenizing, with reading and writing: "
                f"{tokenizing['sentences_per_second']:,.0f} sentences/s."
            )
        else:
            self._line("  Tokenizing: not measured, the tokenized corpus was there already.")
        side = "target " if "target" in self._report["columns"] else ""
        self._line(
            f"  Iterating batches: {iterating['batches_per_second']:,.0f} batches/s, "
            f"{iterating['sentences_per_second']:,.0f} sentences/s, "
            f"{iterating['tokens_per_second']:,.0f} {side}tokens/s."
        )

    def _print_longest(self):
        self._heading("Longest lines")
        for line in self._report["lines"]["longest"]:
            self._print_line(line)

    def _print_odd(self):
        lines = self._report["lines"]
        sample = lines["sample"]
        every = "all" if sample["every"] == 1 else f"one in {sample['every']:,}"
        self._heading(f"Odd lines, of {sample['examples']:,} looked at ({every})")
        printed = set()
        for oddity in lines["odd"]:
            usual = ": more than 1 in 20, so usual here and not listed" * oddity["is_usual"]
            self._line(f"  {oddity['kind']}: {oddity['count']:,} ({oddity['meaning']}){usual}")
            for line in oddity["lines"]:
                if line["place"] in printed:
                    self._line(f"    {line['place']}  as above")
                else:
                    self._print_line(line)
                printed.add(line["place"])

    def _print_line(self, line):
        tokens = ", ".join(f"{column} {number:,}" for column, number in line["tokens"].items())
        self._line(f"    {line['place']}  tokens: {tokens}")
        for text in line["texts"].values():
            self._line(f"        {text}", is_cut=True)

    def _print_warnings(self):
        self._heading("Warnings")
        for warning in self._report["warnings"]:
            self._line(f"  {warning}", style="yellow")
        if not self._report["warnings"]:
            self._line("  none")

    def _heading(self, title):
        self._console.print()
        self._line(title, style="bold")

    def _line(self, text, style="", is_cut=False):
        # Only a text that is cut is cut to the width: a pipe gets all other lines as they are.
        text = Text(shown(text), style)
        if is_cut:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        else:
            self._console.print(text, soft_wrap=self._is_plain)
