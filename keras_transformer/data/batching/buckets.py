"""The shapes that batches may have: few, fixed, and known before training starts."""

import dataclasses
import itertools

import numpy as np

from keras_transformer import checks

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
