"""The measurements of all rounds as tables: rates, and how many times faster ours are."""

import dataclasses
import statistics

#: Ours that others are compared with. (Strings in and out is more work than the peers do.)
REFERENCES = (
    "keras_transformer loop",
    "keras_transformer fit",
    "keras_transformer plain",
    "keras_transformer xla",
    "keras_transformer translate",
)


@dataclasses.dataclass(frozen=True)
class Spread:
    """A median, and the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values):
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits=None):
        """What a table shows.

        >>> Spread.of([1.5, 1.25, 2.0]).text(2)
        '1.50 (1.25–2.00)'
        """
        if digits is None:  # three that mean something
            digits = max(0, 2 - len(str(int(self.median))) + 1)
        shown = [f"{number:,.{digits}f}" for number in (self.median, self.least, self.most)]
        return shown[0] if self.least == self.most else f"{shown[0]} ({shown[1]}–{shown[2]})"


@dataclasses.dataclass(frozen=True)
class Standing:
    """How one contender did at one task.

    Attributes:
        contender: its name.
        value: the `Spread` of its rate: the median of its rounds, the least and most repeat.
        ratios: what each of ours has divided by what this one has, by name: a `Spread` over the
            rounds. Of rates, how many times faster ours is; of seconds, how many times slower.
        utilization: the share of the matrix-multiply peak, or None.
        memory: the most of any round, in MB.
    """

    contender: str
    value: Spread
    ratios: dict
    utilization: float | None
    memory: float


def group_rows(rows):
    """Rows by what was measured: task, config, batch and threads; each a list."""
    groups = {}
    for row in rows:
        key = (row["task"], row["config"], row["batch"], row.get("threads"))
        groups.setdefault(key, []).append(row)
    return groups


def make_standings(rows):
    """Returns the `Standing` of each contender at one task, largest value first.

    A ratio is that of two measurements of the same round, so that a slow hour counts on both sides.
    """
    of_contender = {}
    for row in rows:
        of_contender.setdefault(row["contender"], {})[row["round"]] = row
    standings = []
    for name, of_round in of_contender.items():
        repeats = [each for row in of_round.values() for each in row["spread"]]
        median = statistics.median(row["value"] for row in of_round.values())
        utilizations = [row["mfu"] for row in of_round.values() if row.get("mfu")]
        standings.append(
            Standing(
                name,
                Spread(median, min(repeats), max(repeats)),
                _ratios(name, of_round, of_contender),
                statistics.median(utilizations) if utilizations else None,
                max(row["peak_rss_mb"] for row in of_round.values()),
            )
        )
    return sorted(standings, key=lambda standing: -standing.value.median)


def _ratios(name, of_round, of_contender):
    ratios = {}
    for reference in REFERENCES:
        ours = of_contender.get(reference, {})
        shared = sorted(set(ours) & set(of_round))
        if reference != name and shared:
            quotients = [ours[number]["value"] / of_round[number]["value"] for number in shared]
            ratios[reference] = Spread.of(quotients)
    return ratios


def make_tables(rows):
    """Yields a rich table for each task."""
    from rich.table import Table

    for (task, config, batch, threads), group in group_rows(rows).items():
        standings = make_standings(group)
        present = [standing.contender for standing in standings]
        references = [name for name in REFERENCES if name in present and len(present) > 1]
        has_peak = any(standing.utilization for standing in standings)
        on = "" if threads is None else f", {threads} thread{'s' if threads > 1 else ''}"
        table = Table(title=f"{task} {config}, batch {batch}{on}")
        table.add_column("contender")
        table.add_column(_unit(task, threads), justify="right")
        for name in references:
            table.add_column(f"{name.removeprefix('keras_transformer ')} ÷ it", justify="right")
        if has_peak:
            table.add_column("of peak", justify="right")
        table.add_column("memory", justify="right")
        for standing in standings:
            ratios = [standing.ratios.get(name) for name in references]
            utilization = [f"{standing.utilization:.1%}" if standing.utilization else "–"]
            table.add_row(
                standing.contender,
                standing.value.text(),
                *("–" if ratio is None else ratio.text(2) for ratio in ratios),
                *(utilization if has_peak else []),
                f"{standing.memory:,.0f} MB",
            )
        yield table


def _unit(task, threads):
    if task == "start":
        return "seconds to the first line"
    what = "target tokens" if task == "train" else "sentences"
    return f"{what} per {'CPU second' if threads == 1 else 'second'}"
