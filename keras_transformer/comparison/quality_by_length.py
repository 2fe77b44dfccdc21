"""How good translations are of short sources, and of long ones."""

from keras_transformer.inference import evaluate_translations

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
