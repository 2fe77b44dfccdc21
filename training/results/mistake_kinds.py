"""What kinds of mistakes translations have, told by rules that know no language."""

import collections
import dataclasses
from collections.abc import Callable


class WordDifference:
    """In which words a translation differs from its reference.

    Words are what stands between white space: the texts should be cut into tokens already.

    Args:
        sentence: a `PoorSentence`.
        known_words: all words of the training's target side, a set.

    Attributes:
        reference, hypothesis: the words of each, a list.
        missing, added: the words that one has more often than the other, `Counter`s.
        shared: how many words both have.
        unseen: missing words that the training has never shown. Numbers and punctuation are not
            among them: they need a letter.
        chrf: of the sentence.
    """

    def __init__(self, sentence, known_words):
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
        name: in few words.
        rule: which translations are of this kind: what follows on "the translation …".
        fits: the same as a function of a `WordDifference`.
    """

    name: str
    rule: str
    fits: Callable


def _bare(words):
    """Words in small letters, without those that are punctuation.

    >>> _bare(["A", "dog", "-", "2", "cats", "."])
    ['a', 'dog', '2', 'cats']
    """
    return [word.casefold() for word in words if any(map(str.isalnum, word))]


#: A mistake is of the first of these kinds whose rule fits; the last one takes all that are left.
KINDS = (
    Kind(
        "only form",
        "is the reference, but for capitals, punctuation and spaces",
        lambda words: _bare(words.hypothesis) == _bare(words.reference),
    ),
    Kind(
        "unseen word",
        "lacks a word of the reference, with a letter in it, that no training target has",
        lambda words: bool(words.unseen),
    ),
    # In whole numbers: at exactly 80 % and 125 % nothing is left out or added yet.
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
        "has other words, but much in common: the sentence's chrF is 50 or more",
        lambda words: words.chrf >= 50,
    ),
    Kind("far off", "is none of these", lambda words: True),
)


def kind_of(sentence, known_words):
    """Returns the first `Kind` that fits.

    Args:
        sentence: a `PoorSentence`: its hypothesis is not its reference.
        known_words: all words of the training's target side, a set.

    Example:

    >>> from keras_transformer.inference import PoorSentence
    >>> known = set("ein hund rennt schläft .".split())
    >>> source, reference = "a puppy runs .", "ein welpe rennt ."
    >>> kind_of(PoorSentence(1, source, reference, "ein hund rennt .", 60.0), known).name
    'unseen word'
    >>> kind_of(PoorSentence(1, source, reference, "ein welpe schläft .", 60.0), known).name
    'one word'
    """
    words = WordDifference(sentence, known_words)
    return next(kind for kind in KINDS if kind.fits(words))


def sort_by_kind(sentences, known_words):
    """Returns a list of (`Kind`, its sentences) for all kinds, the worst sentences first.

    Args:
        sentences: `PoorSentence`s, as those of `evaluate_translations`.
        known_words: all words of the training's target side, a set.
    """
    sorted_sentences = {kind.name: [] for kind in KINDS}
    for sentence in sorted(sentences, key=lambda each: (each.chrf, each.line)):
        sorted_sentences[kind_of(sentence, known_words).name].append(sentence)
    return [(kind, sorted_sentences[kind.name]) for kind in KINDS]
