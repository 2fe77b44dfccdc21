"""Sentence pairs and batches, as token ids, that all libraries are measured with.

The peers' scripts use this module as well; it imports no TensorFlow.
"""

import functools
import os
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from keras_transformer._utils.errors import UserError

#: Special ids of the workload, which are also the defaults of this package's tokenizers.
PADDING, UNKNOWN, START, END = 0, 1, 2, 3
_FIRST_PIECE = 4
_VOCABULARY_SIZE = 8000

#: Lengths to which batches are padded. A batch of length n has `tokens // n` rows.
BUCKETS = (12, 16, 20, 24, 32, 48)

#: One batch: arrays of source, target and labels.
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Ids of a sentence pair, without START and END.
Pair = tuple[np.ndarray, np.ndarray]

# Logarithms of the lengths of Multi30k's 29,000 training pairs, in pieces of a joint BPE vocabulary
# of 8,000: means, standard deviations, and correlation of source and target. A log-normal
# distribution with these parameters fills the buckets within one percent of the true shares.
_LOG_MEANS = (2.608, 2.630)
_LOG_DEVIATIONS = (0.317, 0.353)
_LOG_CORRELATION = 0.857
_SIZES = {"train": 29_000, "test": 1_000}


class Workload:
    """Sentence pairs and the batches that are timed: the same arrays for every library.

    Args:
        directory: directory with `train.npz` and `test.npz`, which `peers/setup.sh` makes of
            Multi30k: `src` and `tgt` hold the ids of all sentences in sequence, `src_len` and
            `tgt_len` the lengths. Default: random ids, always the same ones, whose lengths are
            distributed like Multi30k's. Speed depends on the lengths, and hardly on the ids.

    >>> warm, timed = Workload().timing_batches(6)
    >>> sorted({source.shape for source, _, _ in timed})
    [(128, 32), (170, 24), (204, 20), (256, 16), (341, 12)]
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.directory = None if directory is None else pathlib.Path(directory)
        self._read = functools.cache(self._draw if directory is None else self._load)

    def pairs(self, split: str) -> list[Pair]:
        """Returns the pairs of "train" or "test", without START and END."""
        return self._read(split)

    def training_batches(
        self, tokens: int = 4096, limit: int | None = None, seed: int = 0
    ) -> list[Batch]:
        """Returns the int32 batches of an epoch in random order.

        A pair goes to the shortest bucket that holds both sides with END. Both are padded to its
        length, so there is one shape per bucket. Pairs that do not fill a batch are left out.

        Args:
            tokens: tokens per batch, padding included. Default 4096.
            limit: maximum number of batches. Default: all.
            seed: of the order. Default 0.
        """
        random = np.random.default_rng(seed)
        pairs = self.pairs("train")
        waiting: dict[int, list[Pair]] = {length: [] for length in BUCKETS}
        batches = []
        for number in random.permutation(len(pairs)):
            source, target = pairs[number]
            needed = max(len(source), len(target)) + 1
            length = next((length for length in BUCKETS if length >= needed), None)
            if length is None:
                continue
            waiting[length].append((source, target))
            if len(waiting[length]) == tokens // length:
                batches.append(_make_batch(waiting[length], length))
                waiting[length] = []
        return [batches[number] for number in random.permutation(len(batches))][:limit]

    def timing_batches(self, count: int, tokens: int = 4096) -> tuple[list[Batch], list[Batch]]:
        """Returns batches for warming up, one of each shape, and `count` batches for timing.

        The shares of the shapes are those of an epoch, as near as whole numbers allow.
        """
        by_length: dict[int, list[Batch]] = {}
        batches = self.training_batches(tokens)
        for batch in batches:
            by_length.setdefault(batch[0].shape[1], []).append(batch)
        if not batches:
            raise UserError(
                f"the pairs do not fill a batch of {tokens} tokens.",
                where=self._name,
                fix="Use more of them.",
            )
        shares = {length: len(same) / len(batches) * count for length, same in by_length.items()}
        counts = {length: int(share) for length, share in shares.items()}
        # The remaining batches go to the lengths whose share was rounded down most.
        for length in sorted(shares, key=lambda length: counts[length] - shares[length]):
            if sum(counts.values()) >= count:
                break
            counts[length] += 1
        lengths = [length for length in sorted(counts) if counts[length]]
        timed = [batch for length in lengths for batch in by_length[length][: counts[length]]]
        return [by_length[length][0] for length in lengths], timed

    def test_batches(self, batch_size: int, limit: int | None = None) -> list[list[np.ndarray]]:
        """Returns the test sentences in batches, sorted by length, as ids with END.

        Args:
            batch_size: sentences per batch.
            limit: maximum number of sentences, evenly spread over the lengths. Default: all.
        """
        return [
            [np.append(self.pairs("test")[number][0], END).astype(np.int32) for number in numbers]
            for numbers in self._test_numbers(batch_size, limit)
        ]

    def texts(self) -> tuple[list[str], list[str]]:
        """Returns lines to learn a vocabulary from, and the test sentences, as strings.

        They are the lines of `train.en`, `train.de` and `test.en` if the directory has these files;
        otherwise every id is spelled as a word.
        """
        if self.directory is not None and (self.directory / "test.en").is_file():
            train = [*self._lines("train.en"), *self._lines("train.de")]
            return train, self._lines("test.en")
        train = [spell(side) for pair in self.pairs("train") for side in pair]
        return train, [spell(source) for source, _ in self.pairs("test")]

    def test_texts(self, batch_size: int, limit: int | None = None) -> list[list[str]]:
        """Returns the batches of `test_batches` as strings."""
        _, lines = self.texts()
        if len(lines) != len(self.pairs("test")):
            raise UserError(
                f"test.en has {len(lines)} lines, but test.npz has {len(self.pairs('test'))} "
                "sentences.",
                where=self._name,
                fix="Run training/benchmarks/peers/setup.sh again.",
            )
        return [
            [lines[number] for number in numbers]
            for numbers in self._test_numbers(batch_size, limit)
        ]

    @property
    def _name(self) -> str | pathlib.Path:
        return self.directory or "random sentences"

    def _test_numbers(self, batch_size: int, limit: int | None) -> list[list[int]]:
        pairs = self.pairs("test")
        order = sorted(range(len(pairs)), key=lambda number: (len(pairs[number][0]), number))
        if limit:
            order = order[:: max(1, len(order) // limit)][:limit]
        return [order[first : first + batch_size] for first in range(0, len(order), batch_size)]

    def _lines(self, name: str) -> list[str]:
        text = (self.directory / name).read_text(encoding="utf-8")
        return text.removesuffix("\n").split("\n")

    def _load(self, split: str) -> list[Pair]:
        path = self.directory / f"{split}.npz"
        try:
            with np.load(path, allow_pickle=False) as arrays:
                sides = [
                    np.split(arrays[side], np.cumsum(arrays[f"{side}_len"])[:-1])
                    for side in ("src", "tgt")
                ]
        except FileNotFoundError as error:
            raise UserError("no such file.", where=path, fix=_SETUP) from error
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"expected the arrays src, src_len, tgt and tgt_len ({error}).",
                where=path,
                fix="Run training/benchmarks/peers/setup.sh again.",
            ) from error
        return list(zip(*sides, strict=True))

    def _draw(self, split: str) -> list[Pair]:
        random = np.random.default_rng([0, *split.encode()])
        first, second = _LOG_DEVIATIONS
        both = _LOG_CORRELATION * first * second
        logarithms = random.multivariate_normal(
            _LOG_MEANS, [[first**2, both], [both, second**2]], _SIZES[split]
        )
        lengths = np.maximum(np.rint(np.exp(logarithms)), 1).astype(np.int64)
        sides = []
        for column in lengths.T:
            ids = random.integers(_FIRST_PIECE, _VOCABULARY_SIZE, column.sum(), dtype=np.int32)
            sides.append(np.split(ids, np.cumsum(column)[:-1]))
        return list(zip(*sides, strict=True))


_SETUP = "Give a directory that training/benchmarks/peers/setup.sh has filled."


def require_files(directory: str | os.PathLike[str], names: Iterable[str]) -> pathlib.Path:
    """Returns the absolute path of a directory of `peers/setup.sh` if it has the files `names`."""
    path = pathlib.Path(directory)
    for name in names:
        if not (path / name).is_file():
            raise UserError(f"{name} is missing.", where=path, fix=_SETUP)
    return path.resolve()


def require_data(directory: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the absolute path of a directory if it has the files of a `Workload`."""
    return require_files(directory, [f"{split}.npz" for split in _SIZES])


def pad(rows: Sequence[Sequence[int] | np.ndarray], length: int) -> np.ndarray:
    """Returns rows of ids as one int32 array, padded at the end to `length`."""
    array = np.full((len(rows), length), PADDING, np.int32)
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row
    return array


def count_tokens(batches: Iterable[tuple[np.ndarray, ...]]) -> tuple[int, int]:
    """Returns the number of source tokens and of target tokens, padding not counted."""
    batches = list(batches)
    source, target = (
        sum(int(np.count_nonzero(batch[side])) for batch in batches) for side in (0, 2)
    )
    return source, target


def _make_batch(pairs: Sequence[Pair], length: int) -> Batch:
    return (
        pad([np.append(source, END) for source, _ in pairs], length),
        pad([np.insert(target, 0, START) for _, target in pairs], length),
        pad([np.append(target, END) for _, target in pairs], length),
    )


_SYLLABLES = [consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou"]


def spell(ids: Iterable[int]) -> str:
    """Returns a text with a word of syllables for each id.

    >>> spell([4, 80, 7999])
    'bu beba beguzu'
    """
    return " ".join(map(_word, ids))


def _word(number: int) -> str:
    number, first = divmod(int(number), len(_SYLLABLES))
    word = _SYLLABLES[first]
    while number:
        number, digit = divmod(number, len(_SYLLABLES))
        word = _SYLLABLES[digit] + word
    return word
