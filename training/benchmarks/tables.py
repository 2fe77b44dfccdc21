"""Tables of measurements: rates, and ratios between this package and other libraries."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from keras_transformer._utils.console import print_table
from training.benchmarks.timing import Row

if TYPE_CHECKING:
    from rich.console import Console

#: Variants of this package that others are compared with. Those from strings to strings are not
#: among them, because they do more work than the peers.
REFERENCES = (
    "keras_transformer loop",
    "keras_transformer fit",
    "keras_transformer plain",
    "keras_transformer xla",
    "keras_transformer translate",
)


@dataclasses.dataclass(frozen=True)
class Spread:
    """A median with the smallest and the largest value."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Returns the spread of a sequence of numbers."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int | None = None) -> str:
        """Returns the text for a table.

        Args:
            digits: number of decimal places. Default: three significant digits of the median.

        >>> Spread.of([1.5, 1.25, 2.0]).text(2)
        '1.50 (1.25–2.00)'
        """
        if digits is None:
            digits = max(0, 2 - len(str(int(self.median))) + 1)
        shown = [f"{number:,.{digits}f}" for number in (self.median, self.least, self.most)]
        return shown[0] if self.least == self.most else f"{shown[0]} ({shown[1]}–{shown[2]})"


@dataclasses.dataclass(frozen=True)
class ContenderResult:
    """Measurements of one contender at one task.

    Attributes:
        contender: its name.
        value: its rate: the median of the rounds, with the smallest and largest repeat.
        ratios: for each name in `REFERENCES`, that contender's value divided by this one's, over
            the rounds. For rates it is a speedup, for seconds a slowdown.
        utilization: share of the matrix-multiply peak, or None.
        memory: maximum of all rounds, in MB.
    """

    contender: str
    value: Spread
    ratios: Mapping[str, Spread]
    utilization: float | None
    memory: float


def group_rows(rows: Sequence[Row]) -> dict[tuple, list[Row]]:
    """Returns the rows by task, config, batch and threads."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        key = (row["task"], row["config"], row["batch"], row.get("threads"))
        groups.setdefault(key, []).append(row)
    return groups


def summarize(rows: Sequence[Row]) -> list[ContenderResult]:
    """Returns the result of each contender at one task, largest value first.

    A ratio is that of two measurements of the same round, because the speed of the machine may
    change between rounds.
    """
    of_contender: dict[str, dict[int, Row]] = {}
    for row in rows:
        of_contender.setdefault(row["contender"], {})[row["round"]] = row
    results = []
    for name, of_round in of_contender.items():
        repeats = [each for row in of_round.values() for each in row["spread"]]
        median = statistics.median(row["value"] for row in of_round.values())
        utilizations = [row["mfu"] for row in of_round.values() if row.get("mfu")]
        results.append(
            ContenderResult(
                name,
                Spread(median, min(repeats), max(repeats)),
                _ratios(name, of_round, of_contender),
                statistics.median(utilizations) if utilizations else None,
                max(row["peak_rss_mb"] for row in of_round.values()),
            )
        )
    return sorted(results, key=lambda result: -result.value.median)


def _ratios(
    name: str, of_round: Mapping[int, Row], of_contender: Mapping[str, Mapping[int, Row]]
) -> dict[str, Spread]:
    ratios = {}
    for reference in REFERENCES:
        ours = of_contender.get(reference, {})
        shared = sorted(set(ours) & set(of_round))
        if reference != name and shared:
            quotients = [ours[number]["value"] / of_round[number]["value"] for number in shared]
            ratios[reference] = Spread.of(quotients)
    return ratios


def draw_tables(console: "Console", rows: Sequence[Row]) -> None:
    """Prints a table for each task on a rich console."""
    for (task, config, batch, threads), group in group_rows(rows).items():
        results = summarize(group)
        present = [result.contender for result in results]
        references = [name for name in REFERENCES if name in present and len(present) > 1]
        has_peak = any(result.utilization for result in results)
        threads_text = "" if threads is None else f", {threads} thread{'s' if threads > 1 else ''}"
        headings = ["contender", _unit(task, threads)]
        headings += [f"{name.removeprefix('keras_transformer ')} ÷ it" for name in references]
        headings += ["of peak"] * has_peak + ["memory"]
        lines = []
        for result in results:
            ratios = [result.ratios.get(name) for name in references]
            utilization = [f"{result.utilization:.1%}" if result.utilization else "–"]
            cells = [result.contender, result.value.text()]
            cells += ["–" if ratio is None else ratio.text(2) for ratio in ratios]
            lines.append([*cells, *utilization * has_peak, f"{result.memory:,.0f} MB"])
        title = f"{task} {config}, batch {batch}{threads_text}"
        print_table(console, headings, lines, title=title, right=range(1, len(headings)))


def _unit(task: str, threads: int | None) -> str:
    if task == "start":
        return "seconds to the first line"
    what = "target tokens" if task == "train" else "sentences"
    return f"{what} per {'CPU second' if threads == 1 else 'second'}"
