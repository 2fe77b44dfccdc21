"""How far back a model can look things up."""

import re

#: A distance is solved with at least this share of exact matches.
SOLVED = 0.9


def distance_of_test(name):
    """The distance that the name of a test set tells, or None.

    >>> distance_of_test("distance_64"), distance_of_test("unseen dates")
    (64, None)
    """
    found = re.fullmatch(r"distance_(\d+)", name)
    return int(found[1]) if found else None


def longest_solved(exact_matches):
    """The greatest distance that is solved, with all shorter ones; 0 if not even the least is.

    What is solved beyond a distance that is not is luck, or a trick.

    >>> longest_solved({8: 1.0, 16: 0.93, 32: 0.4, 64: 0.95})
    16

    Args:
        exact_matches: their share at each distance.
    """
    longest = 0
    for distance in sorted(exact_matches):
        if exact_matches[distance] < SOLVED:
            break
        longest = distance
    return longest
