"""Writes a parallel corpus of made-up words, for a dry run without the real corpus.

    python training/made_up_corpus.py wmt14
    keras-transformer train training/recipes/wmt14_en_de_base.yaml --dry-run

The speed of a training depends on the lengths of the sentences and the size of the vocabulary, not
on the meaning of the words. The sentences have 3 to 120 words, 26 on average; the frequencies of
the words follow Zipf's law, and there are enough different words for a vocabulary of 37,000.
"""

import argparse
import itertools
import pathlib
import random
from collections.abc import Iterator

_ONSETS = ["b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "sch"]
_VOWELS = ["a", "e", "i", "o", "u", "ei", "au", "ou"]
_SYLLABLES = [1, 2, 2, 3, 3, 4]
_DRAWN_WORDS = 200_000


def make_words(draw: random.Random) -> list[str]:
    """Returns different words, in random order."""

    def syllable() -> str:
        return draw.choice(_ONSETS) + draw.choice(_VOWELS) + draw.choice(["", draw.choice(_ONSETS)])

    drawn = (
        "".join(syllable() for _ in range(draw.choice(_SYLLABLES))) for _ in range(_DRAWN_WORDS)
    )
    return list(dict.fromkeys(drawn))


def make_pairs(count: int, words: list[str], draw: random.Random) -> Iterator[tuple[str, str]]:
    """Yields pairs of sentences of similar lengths; words early in the list are more frequent."""
    weights = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(words))))

    def sentence(length: int) -> str:
        return " ".join(draw.choices(words, cum_weights=weights, k=length))

    for _ in range(count):
        length = min(max(3, int(draw.lognormvariate(3.1, 0.55))), 120)
        yield sentence(length), sentence(max(3, round(length * draw.gauss(0.95, 0.1))))


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "directory",
        type=pathlib.Path,
        help="new directory of the files, which have the names of WMT 2014",
    )
    parser.add_argument(
        "--pairs", type=int, default=300_000, help="number of training pairs (default: %(default)s)"
    )
    arguments = parser.parse_args()
    directory = arguments.directory
    if directory.exists():
        parser.error(f"{directory}: exists already. Choose another directory, or remove this one.")
    directory.mkdir(parents=True)
    draw = random.Random(1)
    words = make_words(draw)
    for name, count in ("train", arguments.pairs), ("newstest2013", 3000), ("newstest2014", 3003):
        sources, targets = zip(*make_pairs(count, words, draw), strict=True)
        (directory / f"{name}.en").write_text("\n".join([*sources, ""]))
        (directory / f"{name}.de").write_text("\n".join([*targets, ""]))


if __name__ == "__main__":
    main()
