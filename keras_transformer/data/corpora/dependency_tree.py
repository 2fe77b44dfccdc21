"""The words of a sentence and what each of them depends on."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class DependencyTree:
    """A parsed sentence. Words are counted from 1; 0 stands above the root.

    Attributes:
        words: the words, in the order of the sentence.
        heads: for each word the number of the word it depends on, 0 for the root.

    Example, in which "sleeps" is the root:

    >>> tree = DependencyTree(("The", "old", "dog", "sleeps"), heads=(3, 3, 4, 0))
    >>> tree.text, tree.depths()
    ('The old dog sleeps', (3, 3, 2, 1))
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]

    def __post_init__(self):
        if not self.words or len(self.words) != len(self.heads):
            raise ValueError(
                "A tree has a head for each of its words, and at least one; got "
                f"{len(self.words)} words and {len(self.heads)} heads."
            )
        for number, head in enumerate(self.heads, start=1):
            if not 0 <= head <= len(self.words):
                raise ValueError(
                    f"The head of word {number} must be from 0 to {len(self.words)}; got {head}."
                )
        cycle = find_cycle(self.heads)
        if cycle:
            way = " → ".join(map(str, [*cycle, cycle[0]]))
            raise ValueError(f"The words {way} depend on each other: a tree has no cycle.")

    @property
    def text(self):
        """The words with one space between them."""
        return " ".join(self.words)

    @property
    def conllu(self):
        """The tree as CoNLL-U, a line for each word with what is known of it.

        >>> DependencyTree(("Dogs", "sleep"), heads=(2, 0)).conllu.splitlines()[0]
        '1\\tDogs\\t_\\t_\\t_\\t_\\t2\\t_\\t_\\t_'
        """
        words = zip(self.words, self.heads, strict=True)
        return "\n".join(
            "\t".join([str(number), word, *"____", str(head), *"___"])
            for number, (word, head) in enumerate(words, start=1)
        )

    def depths(self):
        """How many steps each word is below 0: 1 for the root.

        The absolute position of Wang et al. 2019, "Self-Attention with Structural Position
        Representations", section 3.1, but that the paper counts from the root, as 0.
        """
        depths = [0] + [None] * len(self.heads)
        for start in range(1, len(depths)):
            way, number = [], start
            while depths[number] is None:
                way.append(number)
                number = self.heads[number - 1]
            for steps, passed in enumerate(reversed(way), start=1):
                depths[passed] = depths[number] + steps
        return tuple(depths[1:])

    def distances(self):
        """How many steps lie between each two words, along the tree: int32 `[words, words]`.

        >>> DependencyTree(("old", "dogs", "sleep"), heads=(2, 3, 0)).distances()
        array([[0, 1, 2],
               [1, 0, 1],
               [2, 1, 0]], dtype=int32)
        """
        depths = np.array(self.depths(), np.int32)
        is_above = np.zeros((len(depths), len(depths)), np.int32)  # or the word itself
        for number in np.argsort(depths, kind="stable"):  # heads before what depends on them
            head = self.heads[number]
            if head:
                is_above[number] = is_above[head - 1]
            is_above[number, number] = 1
        shared = is_above @ is_above.T
        return depths[:, None] + depths[None, :] - 2 * shared


def find_cycle(heads):
    """The numbers of words that depend on each other in a circle; none in a tree.

    >>> find_cycle([2, 3, 2])
    [2, 3]
    """
    seen_from = [0] + [None] * len(heads)  # the word from which each was reached first
    for start in range(1, len(heads) + 1):
        way, number = [], start
        while seen_from[number] is None:
            seen_from[number] = start
            way.append(number)
            number = heads[number - 1]
        if seen_from[number] == start:
            return way[way.index(number) :]
    return []
