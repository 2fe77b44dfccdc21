"""The tables of the data report: the numbers of each as a person reads them."""

import dataclasses

from keras_transformer.data.report.vocabulary import LEARNABLE_COUNT

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
