"""The longest and the oddest lines of a corpus, for the data report: what a person should look at.

Odd is what is likely to be a mistake of those who made the corpus. A kind of oddity that more than
one line in twenty has is the nature of the corpus (the dates of the quick start have no letters on
the target side): it is counted, but its lines are not listed.
"""

import itertools

import numpy as np

from keras_transformer.data.corpora.tally import Tally
from keras_transformer.data.report.features import LineFeatures

# Looking at characters takes about 20 µs a text: with more examples than this, only every n-th is
# looked at.
SAMPLE = 200_000

LONGEST_LISTED = 5
ODD_LISTED = 3

_SHOWN_CHARACTERS = 200
_USUAL_SHARE = 0.05


def describe_lines(corpus, cache):
    """Returns the longest and the oddest lines with their places, in JSON's types.

    Args:
        corpus: the `Corpus`.
        cache: its `TokenCache`.

    Returns:
        A dictionary: `sample` says how many examples were looked at for all but `longest`;
        `columns` has, for each column of text, `tokens_per_word` and `characters_per_token`;
        `target_tokens_per_source_token` has percentiles for pairs and is else None; `longest` is a
        list of lines; `odd` a list of kinds of oddities, each with its `lines`. The `place` of a
        line is file:number; of parallel files it names the target's, and of a document of several
        lines it is where it ends.
    """
    step = -(-len(cache) // SAMPLE)
    numbers = np.arange(0, len(cache), step)
    features = LineFeatures.of(itertools.islice(corpus, 0, None, step), numbers, cache)
    longest = _longest(cache)
    oddities = [_listed(oddity, numbers) for oddity in features.oddities()]
    wanted = {*longest, *itertools.chain.from_iterable(listed for _, _, listed in oddities)}
    lines = _find_lines(corpus, cache, wanted)
    return {
        "sample": {"examples": len(numbers), "every": step},
        "columns": features.describe_columns(),
        "target_tokens_per_source_token": features.describe_ratio(),
        "longest": [lines[number] for number in longest],
        "odd": [
            {
                "kind": oddity.kind,
                "meaning": oddity.meaning,
                "count": int(oddity.is_odd.sum()),
                "is_usual": is_usual,
                "lines": [lines[number] for number in listed],
            }
            for oddity, is_usual, listed in oddities
        ],
    }


def _longest(cache):
    """Returns the numbers of the examples with the most tokens on one side, the longest first."""
    numbers = widths = np.zeros(0, np.int64)
    first = 0
    for lengths in cache.iterate_lengths():
        widths = np.concatenate([widths, lengths.max(axis=1)])
        numbers = np.concatenate([numbers, np.arange(first, first + len(lengths))])
        best = np.argsort(-widths, kind="stable")[:LONGEST_LISTED]
        widths, numbers = widths[best], numbers[best]
        first += len(lengths)
    return numbers.tolist()


def _listed(oddity, numbers):
    """Returns the oddity, whether it is usual here, and the numbers of its oddest examples."""
    odd = np.flatnonzero(oddity.is_odd)
    if len(odd) > max(ODD_LISTED, _USUAL_SHARE * len(numbers)):
        return oddity, True, []
    oddest = odd[np.argsort(-oddity.degree[odd], kind="stable")][:ODD_LISTED]
    return oddity, False, numbers[oddest].tolist()


def _find_lines(corpus, cache, wanted):
    """Reads the corpus until all wanted examples were met; returns number → place and texts."""
    lines = {}
    tally = Tally()
    for number, example in enumerate(corpus.read(tally)):
        if len(lines) == len(wanted):
            break
        if number in wanted:
            tokens = {
                name: int(column.spans(np.array([number]))[1][0])
                for name, column in cache.sequence_columns.items()
            }
            texts = dict(zip(corpus.columns, map(_shortened, example), strict=True))
            lines[number] = {"place": tally.place, "tokens": tokens, "texts": texts}
    return lines


def _shortened(text):
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
