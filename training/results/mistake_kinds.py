"""Kinds of mistakes in translations, by rules that are independent of the language."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence

from keras_transformer.inference import PoorSentence


class WordDifference:
    """Words in which a translation differs from its reference.

    Words are separated by white space, so the texts should be tokenized.

    Args:
        sentence: Sentence that is not an exact match.
        known_words: All words of the training's target side.

    Attributes:
        reference: Words of the reference.
        hypothesis: Words of the translation.
        missing: Words that the reference has more often, with counts.
        added: Words that the translation has more often, with counts.
        shared: Number of words that both have.
        unseen: Missing words that are not known, with at least one letter.
        chrf: chrF of the sentence.
    """

    def __init__(self, sentence: PoorSentence, known_words: set[str]) -> None:
        self.reference = sentence.reference.split()
        self.hypothesis = sentence.hypothesis.split()
        counts = [collections.Counter(words) for words in (self.reference, self.hypothesis)]
        self.missing = counts[0] - counts[1]
        self.added = counts[1] - counts[0]
        self.shared = (counts[0] & counts[1]).total()
        self.unseen = [
            word for word in self.missing if word not in known_words and any(map(str.isalpha, word))
        ]
        self.chrf = sentence.chrf


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of mistake.

    Attributes:
        name: Name of the kind.
        rule: The rule in words, which continue "the translation …".
        fits: The rule as a function of a `WordDifference`.
    """

    name: str
    rule: str
    fits: Callable[[WordDifference], bool]


def _bare(words: Iterable[str]) -> list[str]:
    """Returns the words in lower case, without punctuation.

    >>> _bare(["A", "dog", "-", "2", "cats", "."])
    ['a', 'dog', '2', 'cats']
    """
    return [word.casefold() for word in words if any(map(str.isalnum, word))]


#: A mistake belongs to the first of these kinds whose rule fits; the last rule always fits.
KINDS = (
    Kind(
        "only form",
        "is the reference, except for capitals, punctuation and spaces",
        lambda words: _bare(words.hypothesis) == _bare(words.reference),
    ),
    Kind(
        "unseen word",
        "lacks a word of the reference, with a letter in it, that no training target has",
        lambda words: bool(words.unseen),
    ),
    # In integers: at exactly 80 % and 125 % nothing is left out or added.
    Kind(
        "left out",
        "has fewer than 80 % as many words as the reference",
        lambda words: 100 * len(words.hypothesis) < 80 * len(words.reference),
    ),
    Kind(
        "added",
        "has more than 125 % as many words as the reference",
        lambda words: 100 * len(words.hypothesis) > 125 * len(words.reference),
    ),
    Kind(
        "other order",
        "has the words of the reference, in another order",
        lambda words: not words.missing and not words.added,
    ),
    Kind(
        "one word",
        "lacks at most one word of the reference and adds at most one; at least one is shared",
        lambda words: max(words.missing.total(), words.added.total()) <= 1 <= words.shared,
    ),
    Kind(
        "other wording",
        "has other words, but the chrF of the sentence is 50 or more",
        lambda words: words.chrf >= 50,
    ),
    Kind("far off", "is none of these", lambda words: True),
)


def kind_of(sentence: PoorSentence, known_words: set[str]) -> Kind:
    """Returns the first `Kind` that fits.

    Args:
        sentence: Sentence that is not an exact match.
        known_words: All words of the training's target side.

    >>> known = set("ein hund rennt schläft .".split())
    >>> source, reference = "a puppy runs .", "ein welpe rennt ."
    >>> kind_of(PoorSentence(1, source, reference, "ein hund rennt .", 60.0), known).name
    'unseen word'
    >>> kind_of(PoorSentence(1, source, reference, "ein welpe schläft .", 60.0), known).name
    'one word'
    """
    words = WordDifference(sentence, known_words)
    return next(kind for kind in KINDS if kind.fits(words))


def sort_by_kind(
    sentences: Sequence[PoorSentence], known_words: set[str]
) -> list[tuple[Kind, list[PoorSentence]]]:
    """Returns each kind with its sentences, the worst sentences first.

    Args:
        sentences: Sentences that are not exact matches, from `evaluate_translations`.
        known_words: All words of the training's target side.
    """
    sorted_sentences: dict[str, list[PoorSentence]] = {kind.name: [] for kind in KINDS}
    for sentence in sorted(sentences, key=lambda each: (each.chrf, each.line)):
        sorted_sentences[kind_of(sentence, known_words).name].append(sentence)
    return [(kind, sorted_sentences[kind.name]) for kind in KINDS]
