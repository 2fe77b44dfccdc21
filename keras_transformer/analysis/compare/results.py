"""What all runs of a comparison have given: means and spreads over the seeds."""

import dataclasses
import re
import statistics

from keras_transformer.analysis.compare.run_place import RunPlace
from keras_transformer.data.recall import TRAINED_DISTANCES
from keras_transformer.inference import evaluate_translations

#: A distance is solved with at least this share of exact matches.
SOLVED = 0.9


def distance_of_test(name):
    """The distance that the name of a test set tells, or None.

    >>> distance_of_test("distance_64"), distance_of_test("unseen dates")
    (64, None)
    """
    found = re.fullmatch(r"distance_(\d+)", name)
    return int(found[1]) if found else None


def longest_solved(exact_matches):
    """The greatest distance that is solved, with all shorter ones; 0 if not even the least is.

    What is solved beyond a distance that is not is luck, or a trick.

    >>> longest_solved({8: 1.0, 16: 0.93, 32: 0.4, 64: 0.95})
    16

    Args:
        exact_matches: their share at each distance.
    """
    longest = 0
    for distance in sorted(exact_matches):
        if exact_matches[distance] < SOLVED:
            break
        longest = distance
    return longest


#: How many groups there are at most.
GROUPS = 6


def quality_by_length(lengths, sources, hypotheses, references, bleu_tokens="13a"):
    """Returns a list of mappings, one for each group of sources of about a length.

    The groups have about as many sources each; sources of one length are in one group.

    Args:
        lengths: of the sources, in tokens.
        sources, hypotheses, references: lists of as many strings.
        bleu_tokens: what BLEU counts, see `evaluate_translations`.

    Example:

    >>> texts = ["a", "b", "c c", "d d"]
    >>> for group in quality_by_length([1, 1, 2, 2], texts, ["a", "b", "c c", "x"], texts):
    ...     print(group["least"], group["most"], group["exact_match"])
    1 1 1.0
    2 2 0.5
    """
    groups = []
    for least, most in length_groups(lengths):
        rows = [number for number, length in enumerate(lengths) if least <= length <= most]
        evaluation = evaluate_translations(
            *([texts[row] for row in rows] for texts in (sources, hypotheses, references)),
            worst=0,
            bleu_tokens=bleu_tokens,
        )
        groups.append(
            {
                "least": least,
                "most": most,
                "sentences": evaluation.sentences,
                "exact_match": evaluation.exact_match_share,
                "bleu": evaluation.bleu,
            }
        )
    return groups


def length_groups(lengths):
    """Returns the least and the greatest length of each group.

    >>> length_groups([3, 3, 3, 4, 5, 6, 7, 8, 9, 12, 40, 41])
    [(3, 3), (4, 5), (6, 7), (8, 9), (12, 40), (41, 41)]
    """
    groups = []
    left = sorted(lengths)
    while left:
        wanted = -(-len(left) // (GROUPS - len(groups)))
        most = left[wanted - 1]
        groups.append((int(left[0]), int(most)))
        left = [length for length in left if length > most]
    return groups


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that was measured once for each seed.

    Attributes:
        values: one for each run.
        mean: of them.
        spread: their standard deviation (n - 1), or None of a single one.
    """

    values: tuple
    mean: float
    spread: float | None

    @classmethod
    def of(cls, values):
        """Of a sequence of numbers; None if there are none, or one of them is not known.

        >>> Measure.of([1.0, 2.0, 3.0]).spread
        1.0
        """
        values = tuple(values)
        if not values or None in values:
            return None
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(values, statistics.fmean(values), spread)


@dataclasses.dataclass(frozen=True)
class Standing:
    """How one model did.

    Attributes:
        model: its name.
        seeds: those whose runs are finished.
        parameters: how many weights it has.
        updates: that it has made.
        tokens: target tokens that it has learned from.
        measures: `Measure`s by name, None where nothing was measured: "loss" and the comparison's
            quality on the validation data, "tokens_per_second", "peak_memory_mb", and where tests
            have distances "longest_solved".
        tests: the quality on each test set without a distance, a `Measure` by name.
        by_distance: (distance, `Measure` of the quality) in rising order.
        by_length: (least length, greatest length, `Measure` of the quality) in rising order.
        curve: (tokens, `Measure` of the loss) while it learned.
    """

    model: str
    seeds: tuple
    parameters: int
    updates: int
    tokens: float
    measures: dict
    tests: dict
    by_distance: tuple
    by_length: tuple
    curve: tuple


@dataclasses.dataclass(frozen=True)
class Results:
    """A comparison and how its models did.

    Attributes:
        name: of the comparison.
        recipe: that all models share.
        budget: `Budget.to_dictionary()`.
        seeds: that were asked for.
        quality: the name of the metric.
        trained_distance: the greatest distance in training, or None if that is not known.
        standings: a `Standing` for each model with a finished run, in the order of the comparison.
        missing: (model, seed) of each run that failed.
    """

    name: str
    recipe: str
    budget: dict
    seeds: tuple
    quality: str
    trained_distance: int | None
    standings: tuple
    missing: tuple

    def to_dictionary(self):
        """All of it in the types of JSON."""
        return dataclasses.asdict(self)


def collect_results(comparison, recipe, plan, output):
    """Reads what the runs of a comparison have left.

    Args:
        comparison: the `Comparison`.
        recipe: the `Recipe` of its first model.
        plan: what `make_plan` gave.
        output: the directory of the comparison.
    """
    quality = comparison.chosen_quality(recipe)
    standings, missing = [], []
    for model in comparison.models:
        places = {seed: RunPlace.of(output, model, seed) for seed in comparison.seeds}
        finished = {seed: place for seed, place in places.items() if place.is_finished}
        missing += [(model, seed) for seed in places if seed not in finished]
        if finished:
            standings.append(_standing(model, finished, quality, plan["tokens_per_update"]))
    return Results(
        name=comparison.name,
        recipe=comparison.recipe,
        budget=comparison.budget.to_dictionary(),
        seeds=comparison.seeds,
        quality=quality,
        trained_distance=TRAINED_DISTANCES[1] if recipe.data.builtin == "recall" else None,
        standings=tuple(standings),
        missing=tuple(missing),
    )


def _standing(model, places, quality, tokens_per_update):
    runs = [place.read() for place in places.values()]
    first = runs[0]
    names = dict.fromkeys(("loss", quality))
    measures = {name: Measure.of(run["validation"].get(name) for run in runs) for name in names}
    for name in ("tokens_per_second", "peak_memory_mb"):
        measures[name] = Measure.of(run[name] for run in runs)
    distances = {distance_of_test(name): name for name in first["tests"]}
    others = [name for name in first["tests"] if distance_of_test(name) is None]
    distances = {distance: distances[distance] for distance in sorted(filter(None, distances))}
    if distances:
        measures["longest_solved"] = Measure.of(
            longest_solved({d: run["tests"][name]["exact_match"] for d, name in distances.items()})
            for run in runs
        )
    metric = "exact_match" if quality == "loss" else quality

    def test_quality(name):
        return Measure.of(run["tests"][name][metric] for run in runs)

    return Standing(
        model=model,
        seeds=tuple(places),
        parameters=first["parameters"],
        updates=first["updates"],
        tokens=first["updates"] * tokens_per_update,
        measures=measures,
        tests={name: test_quality(name) for name in others},
        by_distance=tuple((distance, test_quality(name)) for distance, name in distances.items()),
        by_length=tuple(
            (group["least"], group["most"], Measure.of(each[metric] for each in groups))
            for groups in zip(*(run["by_length"] for run in runs), strict=True)
            for group in groups[:1]
        ),
        curve=tuple(_curve([place.curve() for place in places.values()], tokens_per_update)),
    )


def _curve(curves, tokens_per_update):
    """Yields the points that all runs have: they are told about at the same updates."""
    losses = [dict(curve) for curve in curves]
    for update in losses[0]:
        if all(update in each for each in losses):
            yield update * tokens_per_update, Measure.of(each[update] for each in losses)
