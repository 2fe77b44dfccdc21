"""How time and memory of attention grow with length, mechanism by mechanism."""

from training.benchmarks.memory import available_memory
from training.benchmarks.processes import MeasurementError
from training.benchmarks.scaling import PowerLaw, coordinates

#: Full attention, the exact one that saves memory, and those that leave something out.
USUAL_MECHANISMS = (
    "scaled_dot_product",
    "chunked",
    "memory_compressed",
    "local",
    "big_bird",
    "linformer",
)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384)
#: Between these, exponents are fitted: below, most of the cost is what every call costs.
FITTED = (2048, 16_384)
# Of the memory that is free, what a measurement may be expected to take: others need some, too.
_SHARE = 0.5


def measure_growth(processes, repeats, mechanisms, lengths, say=print, warn=print):
    """Yields a row of JSON for each mechanism and length, in a process of its own; `x` is it.

    A length that may take more than half of the free memory, if it grows with the square of the
    length before, is left out; so are those that fail, and longer ones.

    Args:
        processes: the `Processes` that measure.
        repeats: how often each times its work.
        mechanisms: registered names.
        lengths: numbers of tokens.
        say: is called with a line for people who wait.
        warn: is called with a line about what is left out.
    """
    for mechanism in mechanisms:
        last = None
        for length in sorted(lengths):
            name = f"{mechanism}, {length:,} tokens"
            if last is not None:
                expected = last["added_mb"] * (length / last["x"]) ** 2
                available = available_memory()
                if expected > _SHARE * available:
                    warn(
                        f"{name}: left out, since it may take {expected:,.0f} MB of memory, and "
                        f"{available:,.0f} MB are free."
                    )
                    break
            say(name)
            try:
                row = processes.measure(
                    "attention",
                    mechanism=mechanism,
                    length=length,
                    repeats=repeats,
                    threads=processes.threads,
                )
            except MeasurementError as error:
                warn(f"{name}: left out, {error}")
                break
            last = {**row, "threads": processes.threads, "x": length}
            yield last


def fit_growth(rows):
    """Returns a row of JSON for each mechanism: the exponents of time and of added memory."""
    fits = []
    for mechanism, points in group_by_mechanism(rows).items():
        points = [row for row in points if FITTED[0] <= row["x"] <= FITTED[1]]
        fit = {"task": "attention", "mechanism": mechanism, "metric": "exponents"}
        for name in ("value", "added_mb"):
            x, y = coordinates(points, name)
            if len(x) > 1:
                fit[name] = round(PowerLaw.fit(x, y).exponent, 3)
        if points:
            fit |= {"from": points[0]["x"], "to": points[-1]["x"]}
        fits.append(fit)
    return fits


def group_by_mechanism(rows):
    """The rows of each mechanism, in the order in which they came."""
    groups = {}
    for row in rows:
        groups.setdefault(row["mechanism"], []).append(row)
    return groups
