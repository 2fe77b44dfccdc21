"""The sentences that all contenders train on and decode, as token ids."""

import functools
import pathlib

import numpy as np

from keras_transformer._utils.errors import UserError

# As the peers' data has them, and this package's vocabularies.
_PADDING, _START, _END, _FIRST_PIECE = 0, 2, 3, 4
_VOCABULARY = 8000

#: Widths of batches; the rows of a batch are the budget of tokens over its width.
BUCKETS = (12, 16, 20, 24, 32, 48)

# The lengths of Multi30k's 29,000 training pairs in pieces of a joint BPE vocabulary of 8,000:
# means and standard deviations of their logarithms, and the correlation of both sides. A log-normal
# distribution with these fills the buckets within one percent of the true shares.
_LOG_MEANS = (2.608, 2.630)
_LOG_DEVIATIONS = (0.317, 0.353)
_LOG_CORRELATION = 0.857
_SIZES = {"train": 29_000, "test": 1_000}


class Workload:
    """Pairs of sentences, and the batches that are timed, the same arrays for every contender.

    Args:
        directory: with `train.npz` and `test.npz` as the peers' set-up makes them of Multi30k: the
            ids of all sources and targets in a row, `src` and `tgt`, and their lengths, `src_len`
            and `tgt_len`. None draws ids at random, always the same ones, with lengths that are
            distributed like Multi30k's: the speed depends on lengths, hardly on which ids.

    >>> warm, timed = Workload().timing_batches(6)
    >>> sorted({source.shape for source, _, _ in timed})
    [(128, 32), (170, 24), (204, 20), (256, 16), (341, 12)]
    """

    def __init__(self, directory=None):
        self.directory = None if directory is None else pathlib.Path(directory)
        self._read = functools.cache(self._draw if directory is None else self._load)

    def pairs(self, split):
        """The pairs of "train" or "test": tuples of arrays, without START and END."""
        return self._read(split)

    def training_batches(self, tokens=4096):
        """An epoch of batches `(source, target, labels)`, int32, in random order.

        A pair goes to the narrowest bucket that holds both sides with END, and both are padded to
        its width, so that there is one shape for each bucket. What does not fill a batch is left
        out.
        """
        random = np.random.default_rng(0)
        pairs = self.pairs("train")
        waiting = {width: [] for width in BUCKETS}
        batches = []
        for number in random.permutation(len(pairs)):
            source, target = pairs[number]
            needed = max(len(source), len(target)) + 1
            width = next((width for width in BUCKETS if width >= needed), None)
            if width is None:
                continue
            waiting[width].append((source, target))
            if len(waiting[width]) == tokens // width:
                batches.append(_make_batch(waiting[width], width))
                waiting[width] = []
        return [batches[number] for number in random.permutation(len(batches))]

    def timing_batches(self, count, tokens=4096):
        """Batches to warm up with, one of each shape, and `count` that are timed.

        The shares of the shapes are those of an epoch, as near as whole numbers come.
        """
        of_width = {}
        batches = self.training_batches(tokens)
        for batch in batches:
            of_width.setdefault(batch[0].shape[1], []).append(batch)
        if not batches:
            raise UserError(
                f"{self._name}: its pairs do not fill a batch of {tokens} tokens. Use more of them."
            )
        shares = {width: len(same) / len(batches) * count for width, same in of_width.items()}
        counts = {width: int(share) for width, share in shares.items()}
        # What is left goes to those that lack most.
        for width in sorted(shares, key=lambda width: counts[width] - shares[width]):
            if sum(counts.values()) >= count:
                break
            counts[width] += 1
        chosen = [(of_width[width], number) for width, number in sorted(counts.items()) if number]
        timed = [batch for same, number in chosen for batch in same[:number]]
        return [same[0] for same, _ in chosen], timed

    def test_batches(self, batch_size, limit=None):
        """The test sentences sorted by length, `batch_size` at a time: lists of ids with END.

        A limit takes so many of them, evenly spread over the lengths.
        """
        return [
            [np.append(self.pairs("test")[number][0], _END).astype(np.int32) for number in numbers]
            for numbers in self._test_numbers(batch_size, limit)
        ]

    def texts(self):
        """Lines to learn a vocabulary of, and the test sentences, for decoding from text to text.

        They are the lines of `train.en`, `train.de` and `test.en` where a directory has them, as
        the peers' has; else each id is spelt as a word.
        """
        if self.directory is not None and (self.directory / "test.en").is_file():
            train = [*self._lines("train.en"), *self._lines("train.de")]
            return train, self._lines("test.en")
        train = [spell(side) for pair in self.pairs("train") for side in pair]
        return train, [spell(source) for source, _ in self.pairs("test")]

    def test_texts(self, batch_size, limit=None):
        """The texts of `test_batches`: lists of strings."""
        _, lines = self.texts()
        if len(lines) != len(self.pairs("test")):
            raise UserError(
                f"{self._name}: test.en has {len(lines)} lines, test.npz {len(self.pairs('test'))} "
                "sentences. Run the peers' setup.sh again."
            )
        return [
            [lines[number] for number in numbers]
            for numbers in self._test_numbers(batch_size, limit)
        ]

    @property
    def _name(self):
        return self.directory or "The drawn sentences"

    def _test_numbers(self, batch_size, limit):
        pairs = self.pairs("test")
        order = sorted(range(len(pairs)), key=lambda number: (len(pairs[number][0]), number))
        if limit:
            order = order[:: max(1, len(order) // limit)][:limit]
        return [order[first : first + batch_size] for first in range(0, len(order), batch_size)]

    def _lines(self, name):
        text = (self.directory / name).read_text(encoding="utf-8")
        return text.removesuffix("\n").split("\n")

    def _load(self, split):
        path = self.directory / f"{split}.npz"
        try:
            with np.load(path, allow_pickle=False) as arrays:
                sides = [
                    np.split(arrays[side], np.cumsum(arrays[f"{side}_len"])[:-1])
                    for side in ("src", "tgt")
                ]
        except FileNotFoundError as error:
            raise UserError(
                f"{path}: is not there. Give the folder that the peers' setup.sh has filled."
            ) from error
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{path}: does not hold the arrays src, src_len, tgt and tgt_len ({error}). Run "
                "the peers' setup.sh again."
            ) from error
        return list(zip(*sides, strict=True))

    def _draw(self, split):
        random = np.random.default_rng([0, *split.encode()])
        first, second = _LOG_DEVIATIONS
        both = _LOG_CORRELATION * first * second
        logarithms = random.multivariate_normal(
            _LOG_MEANS, [[first**2, both], [both, second**2]], _SIZES[split]
        )
        lengths = np.maximum(np.rint(np.exp(logarithms)), 1).astype(np.int64)
        sides = []
        for column in lengths.T:
            ids = random.integers(_FIRST_PIECE, _VOCABULARY, column.sum(), dtype=np.int32)
            sides.append(np.split(ids, np.cumsum(column)[:-1]))
        return list(zip(*sides, strict=True))


def spell(ids):
    """A text with a word for each id, made of syllables.

    >>> spell([4, 80, 7999])
    'bu beba beguzu'
    """
    return " ".join(map(_word, ids))


def padded(rows, width):
    """Rows of ids as one int32 array, padded at their ends."""
    array = np.full((len(rows), width), _PADDING, np.int32)
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row
    return array


def count_tokens(batches):
    """How many source and target tokens are not padding."""
    return tuple(sum(int(np.count_nonzero(batch[side])) for batch in batches) for side in (0, 2))


def _make_batch(pairs, width):
    return (
        padded([np.append(source, _END) for source, _ in pairs], width),
        padded([np.insert(target, 0, _START) for _, target in pairs], width),
        padded([np.append(target, _END) for _, target in pairs], width),
    )


_SYLLABLES = [consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou"]


def _word(number):
    number, first = divmod(int(number), len(_SYLLABLES))
    word = _SYLLABLES[first]
    while number:
        number, digit = divmod(number, len(_SYLLABLES))
        word = _SYLLABLES[digit] + word
    return word


def require_data(directory):
    """Returns the directory if it has the files of a `Workload`."""
    directory = pathlib.Path(directory)
    for split in _SIZES:
        if not (directory / f"{split}.npz").is_file():
            raise UserError(
                f"{directory}: {split}.npz is not there. Give the folder `data` of the one that "
                "the peers' setup.sh has filled."
            )
    return directory.resolve()
