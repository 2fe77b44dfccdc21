"""Choosing the shapes of batches from the lengths of a corpus' examples."""

import dataclasses
import itertools

import numpy as np

from keras_transformer._utils import checks
from keras_transformer._utils.errors import UserError

TOO_LONG = ("skip", "truncate")


@dataclasses.dataclass(frozen=True)
class Bucket:
    """One shape of batches: `rows` examples, each column padded to a width of its own.

    A width counts tokens together with the END (or START) that batches add.
    """

    rows: int
    widths: tuple[int, ...]

    def __post_init__(self):
        checks.require_positive_integer("rows", self.rows)
        for width in self.widths:
            checks.require_positive_integer("widths", width)

    @property
    def row_slots(self):
        """The places for tokens in a row, all columns together: what an example costs here."""
        return sum(self.widths)

    @property
    def slots(self):
        """The places for tokens in a batch."""
        return self.rows * self.row_slots

    def holds(self, other):
        """Returns whether all that fits into a row of `other` fits into a row of this bucket."""
        return all(mine >= its for mine, its in zip(self.widths, other.widths, strict=True))


@dataclasses.dataclass(frozen=True)
class BucketTable:
    """All the shapes that the batches of a corpus have. `choose_buckets` makes one that fits.

    An example belongs to the first bucket that holds it, which is the cheapest, as they are sorted.

    Args:
        buckets: the `Bucket`s, those with the least slots in a row first. The last one must hold
            all that any other one holds.
        too_long: what becomes of an example that the last bucket does not hold. "skip" leaves it
            out, "truncate" cuts it at the last bucket's widths. What is cut has no END, so that a
            model does not learn to stop in the middle.
        room: how much longer than in the cache sequences are taken to be, a factor for all columns
            or a tuple with one for each. More than 1 is for segmentations that are sampled anew for
            each batch, which are longer. It makes no sequence too long that is not so without it.

    Example:

    >>> table = BucketTable((Bucket(rows=8, widths=(4, 4)), Bucket(rows=4, widths=(6, 9))))
    >>> table.assign(np.array([[2, 3], [3, 4], [1, 9]]))
    array([ 0,  1, -1])
    >>> BucketTable.from_config(table.get_config()) == table
    True
    """

    buckets: tuple[Bucket, ...]
    too_long: str = "skip"
    room: float | tuple[float, ...] = 1.0

    def __post_init__(self):
        checks.require_choice("too_long", self.too_long, TOO_LONG)
        object.__setattr__(self, "room", require_room(self.room))
        if not self.buckets:
            raise ValueError("`buckets` must have at least one bucket; got none.")
        last = self.buckets[-1]
        for bucket in self.buckets:
            if len(bucket.widths) != len(last.widths) or not last.holds(bucket):
                raise ValueError(
                    "`buckets` must end with one that holds all that the others hold; "
                    f"got the widths {bucket.widths} and at the end {last.widths}."
                )
        for bucket, following in itertools.pairwise(self.buckets):
            if bucket.row_slots > following.row_slots:
                raise ValueError(
                    "`buckets` must be sorted by the sum of their widths; "
                    f"got {bucket.widths} before {following.widths}."
                )

    def __len__(self):
        return len(self.buckets)

    def __getitem__(self, index):
        return self.buckets[index]

    def assign(self, lengths):
        """Returns the index of each example's bucket, -1 for those that are skipped.

        Args:
            lengths: the number of ids, without END, `[examples, columns]`.
        """
        widths = needed_widths(lengths, self.room, self[-1].widths)
        rest = -1 if self.too_long == "skip" else len(self) - 1
        assigned = np.full(len(widths), rest)
        for index in reversed(range(len(self))):
            fits = (widths <= np.array(self[index].widths)).all(axis=1)
            assigned[fits] = index
        return assigned

    def next_larger(self, index):
        """Returns the index of the cheapest other bucket that holds what this one does, or None."""
        for other in range(index + 1, len(self)):
            if self[other].holds(self[index]):
                return other
        return None

    def get_config(self):
        """Returns the table in JSON's types, for `from_config`."""
        return {
            "buckets": [{"rows": b.rows, "widths": list(b.widths)} for b in self.buckets],
            "too_long": self.too_long,
            "room": list(self.room) if isinstance(self.room, tuple) else self.room,
        }

    @classmethod
    def from_config(cls, config):
        """Returns the table that `get_config` described."""
        buckets = (Bucket(b["rows"], tuple(b["widths"])) for b in config["buckets"])
        return cls(tuple(buckets), config["too_long"], config["room"])


def needed_widths(lengths, room, longest):
    """Returns the width that each number of ids needs, END included.

    Args:
        lengths: the number of ids, without END, `[examples, columns]`.
        room: see `BucketTable`.
        longest: the largest width there is, a number or one for each column. A sequence that is no
            longer without room gets no more.
    """
    without_room = np.asarray(lengths) + 1
    widths = np.ceil(np.asarray(lengths) * np.asarray(room)).astype(np.int64) + 1
    return np.where(without_room <= longest, np.minimum(widths, longest), widths)


def require_room(room):
    """Returns `room`, a factor of at least 1 or several, as a `float` or a tuple of them."""
    if isinstance(room, list | tuple):
        return tuple(map(require_room, room))
    if checks.require_positive("room", room) < 1:
        raise ValueError(f"`room` must be at least 1, the length in the cache; got {room}.")
    return float(room)


DEFAULT_BUCKETS = 20

# As with fairseq's `--required-batch-size-multiple 8`: two, four or eight workers can share the
# rows evenly, and matrix units like such numbers.
_ROW_MULTIPLE = 8

# The widths that are tried: every one up to 40, then each 5 % wider than the one before. Trying
# more of them gains nothing on Multi30k.
_GROWTH = 1.05


def choose_buckets(
    cache,
    *,
    tokens=4096,
    max_length=256,
    too_long="skip",
    max_buckets=DEFAULT_BUCKETS,
    room=1.0,
):
    """Returns a `BucketTable` with which the batches of a corpus hold little padding.

    The first shape is that of the longest sequences. Then the shape that saves the most padding is
    added, again and again. The same cache and arguments give the same table everywhere.

    Args:
        cache: the `TokenCache`.
        tokens: the budget of a batch: its rows times its widest column are never more. That is
            what `--max-tokens` means in fairseq and a batch size in tokens in OpenNMT, so that the
            numbers of their recipes can be used. 4,096 is fairseq's usual one.
        max_length: the longest sequence, END included. What is longer is skipped or truncated.
        too_long: "skip" or "truncate", see `BucketTable`.
        max_buckets: the number of shapes at most. 20 leave less than 10 % padding on Multi30k, 8
            leave 13 to 16 %. Few are good where each shape is compiled by itself, as by XLA.
        room: see `BucketTable`.

    Raises:
        UserError: if every example is too long, or one row is more than the budget.
    """
    checks.require_positive_integer("tokens", tokens)
    checks.require_integer("max_length", max_length, minimum=2)
    checks.require_choice("too_long", too_long, TOO_LONG)
    checks.require_positive_integer("max_buckets", max_buckets)
    room = require_room(room)
    examples, longest = _longest_widths(cache, max_length, too_long, room)
    if max(longest) > tokens:
        raise UserError(
            f"A batch of {tokens} tokens cannot hold the longest sequence of {max(longest)} tokens "
            f"with END. Set `tokens` to at least {max(longest)}, or `max_length` to at most "
            f"{tokens}."
        )
    shapes = _choose_shapes(_count_cells(cache, longest, too_long, room), longest, max_buckets)
    buckets = (Bucket(min(_rows(tokens, max(shape)), examples), shape) for shape in shapes)
    return BucketTable(tuple(buckets), too_long, room)


def _rows(tokens, width):
    rows = tokens // width
    return rows - rows % _ROW_MULTIPLE if rows > _ROW_MULTIPLE else rows


def _longest_widths(cache, max_length, too_long, room):
    """Returns how many examples are kept, and the largest width of each column among them."""
    examples, shortest = 0, np.inf
    longest = np.zeros(len(cache.sequence_columns), np.int64)
    for lengths in cache.iterate_lengths():
        widths = needed_widths(lengths, room, max_length)
        shortest = min(shortest, lengths.max(axis=1).min() + 1)
        if too_long == "skip":
            widths = widths[(widths <= max_length).all(axis=1)]
        examples += len(widths)
        longest = np.maximum(longest, widths.max(axis=0, initial=0))
    if not examples:
        raise UserError(
            f"All {len(cache)} examples are longer than `max_length`={max_length} tokens with END; "
            f"the shortest has {shortest}. Set it to at least that, or have them truncated."
        )
    return examples, tuple(np.minimum(longest, max_length).tolist())


def _candidate_widths(longest):
    widths = [1]
    while widths[-1] < longest:
        grown = max(widths[-1] + 1, int(widths[-1] * _GROWTH))
        widths.append(min(grown, longest))
    return np.array(widths)


def _count_cells(cache, longest, too_long, room):
    """Returns how many examples need each combination of candidate widths, one axis a column."""
    candidates = [_candidate_widths(width) for width in longest]
    shape = tuple(map(len, candidates))
    counts = np.zeros(shape, np.int64)
    for lengths in cache.iterate_lengths():
        widths = needed_widths(lengths, room, longest)
        if too_long == "skip":
            widths = widths[(widths <= np.array(longest)).all(axis=1)]
        cells = [
            np.searchsorted(candidate, np.minimum(column, candidate[-1]))
            for candidate, column in zip(candidates, widths.T, strict=True)
        ]
        flat = np.ravel_multi_index(cells, shape)
        counts += np.bincount(flat, minlength=counts.size).reshape(shape)
    return counts


def _choose_shapes(counts, longest, max_buckets):
    """Returns up to `max_buckets` shapes, tuples of widths, sorted by what a row costs."""
    if counts.ndim == 1:  # one column: as two, the second of which has no width
        shapes = _choose_cells(
            counts[:, np.newaxis], [_candidate_widths(*longest), [0]], max_buckets
        )
        shapes = [shape[:1] for shape in shapes]
    else:
        shapes = _choose_cells(counts, [_candidate_widths(width) for width in longest], max_buckets)
    return sorted(shapes, key=lambda shape: (sum(shape), shape))


def _choose_cells(counts, candidates, max_buckets):
    costs = np.add.outer(*candidates)  # [a, b]: the slots of a row of this shape
    current = np.full_like(costs, costs[-1, -1])  # [i, j]: the slots of the cell's examples so far
    cells = [(costs.shape[0] - 1, costs.shape[1] - 1)]
    while len(cells) < max_buckets:
        savings = _savings(counts, costs, current)
        best = np.unravel_index(savings.argmax(), savings.shape)
        if savings[best] == 0:
            break
        cells.append(best)
        held = np.s_[: best[0] + 1, : best[1] + 1]
        current[held] = np.minimum(current[held], costs[best])
    return [(int(candidates[0][a]), int(candidates[1][b])) for a, b in cells]


def _savings(counts, costs, current):
    """Returns the slots that each shape would save if it were added.

    Shape (a, b) saves `current[i, j] - costs[a, b]`, where that is positive, for every example of
    the cells i ≤ a, j ≤ b. `current` has few values: one for each shape there is.
    """
    savings = np.zeros_like(costs)
    for slots in np.unique(current):
        held = np.where(current == slots, counts, 0).cumsum(axis=0).cumsum(axis=1)  # [a, b]
        savings += held * np.maximum(slots - costs, 0)
    return savings
