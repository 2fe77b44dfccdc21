"""Shapes of batches, chosen by the lengths of the examples so that there is little padding."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_transformer._utils import checks
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.data.token_cache import TokenCache

#: Factor of all columns, or one for each.
Headroom: TypeAlias = float | tuple[float, ...]

#: Actions for examples that no bucket holds.
LENGTH_ACTIONS = ("skip", "truncate")


@dataclasses.dataclass(frozen=True)
class Bucket:
    """One shape of batches.

    Args:
        rows: Number of examples in a batch.
        lengths: Padded length of each column in tokens, with the end (or start) token.
    """

    rows: int
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        checks.require_positive_integer("rows", self.rows)
        for length in self.lengths:
            checks.require_positive_integer("lengths", length)

    @property
    def row_slots(self) -> int:
        """Number of tokens in a row, all columns together, padding included."""
        return sum(self.lengths)

    @property
    def slots(self) -> int:
        """Number of tokens in a batch, padding included."""
        return self.rows * self.row_slots

    def holds(self, other: "Bucket") -> bool:
        """Returns whether every example that fits into `other` fits into this bucket."""
        return all(mine >= theirs for mine, theirs in zip(self.lengths, other.lengths, strict=True))


@dataclasses.dataclass(frozen=True)
class BucketTable:
    """All shapes of the batches of a corpus. `choose_buckets` makes a table for a corpus.

    An example belongs to the first bucket that holds it, which has the shortest rows.

    Args:
        buckets: The `Bucket`s, sorted by the sum of their lengths. The last one must hold every
            example that another one holds.
        too_long: Action for an example that the last bucket does not hold. `"skip"` leaves it out;
            `"truncate"` cuts it to the lengths of the last bucket, without an end token, so that
            the model does not learn to stop in the middle.
        headroom: Factor, or one for each column, by which sequences may be longer than in the
            cache. Use more than 1 with samplers, whose segmentations are longer. No sequence
            becomes too long because of it.

    >>> table = BucketTable((Bucket(rows=8, lengths=(4, 4)), Bucket(rows=4, lengths=(6, 9))))
    >>> table.assign(np.array([[2, 3], [3, 4], [1, 9]]))
    array([ 0,  1, -1])
    >>> BucketTable.from_config(table.get_config()) == table
    True
    """

    buckets: tuple[Bucket, ...]
    too_long: str = "skip"
    headroom: Headroom = 1.0

    def __post_init__(self) -> None:
        checks.require_choice("too_long", self.too_long, LENGTH_ACTIONS)
        object.__setattr__(self, "headroom", require_headroom(self.headroom))
        if not self.buckets:
            raise UserError("`buckets` must have at least one bucket; got none.")
        last = self.buckets[-1]
        for bucket, following in itertools.pairwise((*self.buckets, last)):
            if len(bucket.lengths) != len(last.lengths) or not last.holds(bucket):
                got = f"the lengths {bucket.lengths}, and {last.lengths} at the end"
                raise UserError(f"`buckets` must end with one that holds the others; got {got}.")
            if bucket.row_slots > following.row_slots:
                got = f"{bucket.lengths} before {following.lengths}"
                raise UserError(f"`buckets` must be sorted by the sum of their lengths; got {got}.")

    def __len__(self) -> int:
        return len(self.buckets)

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self.buckets)

    def __getitem__(self, index: int) -> Bucket:
        return self.buckets[index]

    def assign(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the index of each example's bucket; -1 for examples that are skipped.

        `lengths` are numbers of ids without the end token, `[examples, columns]`.
        """
        needed = needed_lengths(lengths, self.headroom, self[-1].lengths)
        rest = -1 if self.too_long == "skip" else len(self) - 1
        assigned = np.full(len(needed), rest)
        for index in reversed(range(len(self))):
            fits = (needed <= np.array(self[index].lengths)).all(axis=1)
            assigned[fits] = index
        return assigned

    def next_larger(self, index: int) -> int | None:
        """Returns the index of the next bucket that holds what bucket `index` holds, or None."""
        following = range(index + 1, len(self))
        return next((other for other in following if self[other].holds(self[index])), None)

    def get_config(self) -> dict[str, Any]:
        """Returns the table as a dictionary for JSON and `from_config`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BucketTable":
        """Returns the table with a config from `get_config`."""
        buckets = (Bucket(b["rows"], tuple(b["lengths"])) for b in config["buckets"])
        return cls(tuple(buckets), config["too_long"], config["headroom"])


def needed_lengths(
    lengths: np.ndarray, headroom: Headroom, longest: int | Sequence[int]
) -> np.ndarray:
    """Returns the padded lengths that sequences of `lengths` ids need, with the end token.

    A sequence that fits into `longest`, one number or one a column, without headroom gets no more.
    """
    needed = np.ceil(np.asarray(lengths) * np.asarray(headroom)).astype(np.int64) + 1
    return np.where(np.asarray(lengths) < longest, np.minimum(needed, longest), needed)


def require_headroom(headroom: Any) -> Headroom:
    """Returns `headroom`, a factor of at least 1 or several, as a `float` or a tuple of them."""
    is_sequence = isinstance(headroom, list | tuple)
    factors = tuple(headroom) if is_sequence else (headroom,)
    for factor in factors:
        if checks.require_positive("headroom", factor) < 1:
            raise ArgumentError("headroom", "at least 1, the length in the cache", factor)
    factors = tuple(map(float, factors))
    return factors if is_sequence else factors[0]


DEFAULT_BUCKETS = 20

# As with fairseq's `--required-batch-size-multiple 8`: two, four or eight workers can share the
# rows evenly, and matrix units prefer such numbers.
_ROW_MULTIPLE = 8

# The lengths that are tried: all up to 40, then each 5 % longer than the one before. More lengths
# gain nothing on Multi30k.
_GROWTH = 1.05


def choose_buckets(
    cache: TokenCache,
    *,
    tokens: int = 4096,
    max_length: int = 256,
    too_long: str = "skip",
    max_buckets: int = DEFAULT_BUCKETS,
    headroom: float | Sequence[float] = 1.0,
) -> BucketTable:
    """Returns a `BucketTable` with which the batches of a corpus contain little padding.

    The first shape is that of the longest sequences. Then the shape that saves the most padding is
    added, repeatedly. The same cache and arguments give the same table on every machine.

    Args:
        cache: A `TokenCache`.
        tokens: Maximum tokens per batch, padding included: its rows times its longest column, as
            `--max-tokens` in fairseq, whose examples have 4,096 as well.
        max_length: Maximum length of a sequence, with the end token.
        too_long: `"skip"` or `"truncate"` longer sequences, as in `BucketTable`.
        max_buckets: Maximum number of shapes. 20 leave less than 10 % padding on Multi30k, 8 leave
            13 to 16 %. Use few if XLA compiles each shape.
        headroom: Factor, or one for each column, as in `BucketTable`.

    Raises:
        UserError: If every example is too long, or one row has more than `tokens` tokens.
    """
    checks.require_positive_integer("tokens", tokens)
    checks.require_integer("max_length", max_length, minimum=2)
    checks.require_choice("too_long", too_long, LENGTH_ACTIONS)
    checks.require_positive_integer("max_buckets", max_buckets)
    factors = require_headroom(headroom)
    kept_lengths = functools.partial(_kept_lengths, cache, too_long, factors)
    examples, maxima = 0, np.zeros(1, np.int64)
    for lengths in kept_lengths(max_length):
        examples += len(lengths)
        maxima = np.maximum(maxima, lengths.max(axis=0, initial=0))
    if not examples:
        shortest = min(lengths.max(axis=1).min() + 1 for lengths in cache.iterate_lengths())
        raise UserError(
            f"all {len(cache)} examples are longer than {max_length} tokens with the end token; "
            f"the shortest has {shortest}.",
            argument="max_length",
            related=("too_long",),
            fix=f"Set it to at least {shortest}, or truncate long examples.",
        )
    longest = maxima.tolist()
    if max(longest) > tokens:
        raise UserError(
            f"a batch of {tokens} tokens cannot contain the longest sequence, which has "
            f"{max(longest)} with the end token.",
            argument="tokens",
            related=("max_length",),
            fix=f"Set `tokens` to at least {max(longest)}, or `max_length` to at most {tokens}.",
        )
    candidates = [_candidate_lengths(length) for length in longest]
    counts = _count_cells(kept_lengths(longest), candidates)
    buckets = []
    for shape in _choose_shapes(counts, candidates, max_buckets):
        rows = tokens // max(shape)
        if rows > _ROW_MULTIPLE:
            rows -= rows % _ROW_MULTIPLE
        buckets.append(Bucket(min(rows, examples), shape))
    return BucketTable(tuple(buckets), too_long, factors)


def _kept_lengths(
    cache: TokenCache, too_long: str, headroom: Headroom, longest: int | Sequence[int]
) -> Iterator[np.ndarray]:
    """Yields the lengths that the kept examples need, at most `longest`, in chunks."""
    for lengths in cache.iterate_lengths():
        needed = needed_lengths(lengths, headroom, longest)
        if too_long == "skip":
            needed = needed[(needed <= np.asarray(longest)).all(axis=1)]
        yield np.minimum(needed, longest)


def _candidate_lengths(longest: int) -> np.ndarray:
    lengths = [1]
    while lengths[-1] < longest:
        lengths.append(min(max(lengths[-1] + 1, int(lengths[-1] * _GROWTH)), longest))
    return np.array(lengths)


def _count_cells(chunks: Iterable[np.ndarray], candidates: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the number of examples for each combination of candidate lengths, by column."""
    shape = tuple(map(len, candidates))
    counts = np.zeros(shape, np.int64)
    for lengths in chunks:
        cells = list(map(np.searchsorted, candidates, lengths.T))
        cells = np.ravel_multi_index(cells, shape)
        counts += np.bincount(cells, minlength=counts.size).reshape(shape)
    return counts


def _choose_shapes(
    counts: np.ndarray, candidates: Sequence[np.ndarray], max_buckets: int
) -> list[tuple[int, ...]]:
    """Returns up to `max_buckets` shapes, tuples of lengths, sorted by the slots of a row."""
    # One column is treated as two, the second of which has length 0.
    first, second = [*candidates, np.zeros(1, int)][:2]
    counts = counts.reshape(len(first), len(second))
    costs = np.add.outer(first, second)  # [a, b]: slots of a row of this shape
    current = np.full_like(costs, costs[-1, -1])  # [i, j]: current slots of the cell's examples
    cells: list[tuple[Any, ...]] = [(costs.shape[0] - 1, costs.shape[1] - 1)]
    while len(cells) < max_buckets:
        savings = _savings(counts, costs, current)
        best = np.unravel_index(savings.argmax(), savings.shape)
        if savings[best] == 0:
            break
        cells.append(best)
        held = np.s_[: best[0] + 1, : best[1] + 1]
        current[held] = np.minimum(current[held], costs[best])
    shapes = [(int(first[a]), int(second[b]))[: len(candidates)] for a, b in cells]
    return sorted(shapes, key=lambda shape: (sum(shape), shape))


def _savings(counts: np.ndarray, costs: np.ndarray, current: np.ndarray) -> np.ndarray:
    """Returns the slots that each shape would save if it were added.

    Shape (a, b) saves `current[i, j] - costs[a, b]`, where that is positive, for every example of
    the cells i ≤ a, j ≤ b. `current` has few values: one for each shape so far.
    """
    savings = np.zeros_like(costs)
    for slots in np.unique(current):
        held = np.where(current == slots, counts, 0).cumsum(axis=0).cumsum(axis=1)  # [a, b]
        savings += held * np.maximum(slots - costs, 0)
    return savings
