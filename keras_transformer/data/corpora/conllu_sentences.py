"""Sentences and their trees in lines of CoNLL-U."""

import re

from keras_transformer.data.corpora.dependency_tree import DependencyTree, find_cycle
from keras_transformer.data.corpora.tally import BadLine

_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_WORD = re.compile(r"[1-9][0-9]*", re.ASCII)
_MULTIWORD = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)", re.ASCII)
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]*)\.([1-9][0-9]*)", re.ASCII)
_HEAD = re.compile(r"0|[1-9][0-9]*", re.ASCII)


def read_sentences(lines, tally):
    """Yields a `DependencyTree` for each sentence, or a `BadLine` or `TOO_LONG` in its place.

    The rules of the format (universaldependencies.org/format.html, version 2): comments, then a
    line of ten columns for each word, counted from 1, then a blank line, which the end of the file
    may stand for. Words are the nodes of the tree: the line of a multiword token ("zum", 3-4) gives
    way to those of its words ("zu", "dem"), and empty nodes (8.1) belong to the enhanced graph, not
    to the tree. A sentence with a flaw is bad as a whole.

    Args:
        lines: of one file, as `read_lines` yields them.
        tally: their `Tally`, which knows the place.
    """
    sentence = _Sentence()
    for line in lines:
        if isinstance(line, str) and (not line or line.isspace()):
            yield from sentence.take(tally)
            sentence = _Sentence()
        else:
            sentence.add(line, tally)
    yield from sentence.take(tally)


class _Sentence:
    """The words of one sentence so far, or what is wrong with it."""

    def __init__(self):
        self._words, self._heads, self._places = [], [], []
        self._multiword_end = self._empty_nodes = 0
        self._has_lines = False
        self._flaw = None

    def add(self, line, tally):
        self._has_lines = True
        if self._flaw is not None:
            return
        if not isinstance(line, str):
            self._flaw = line
        elif line.startswith("#"):
            if self._places:
                self._refuse(tally.place, "a comment within a sentence", "Put it before the words")
        else:
            self._add_columns(line.split("\t"), tally.place)

    def _add_columns(self, columns, place):
        if len(columns) != len(_COLUMNS):
            number = f"{len(columns)} column{'s' * (len(columns) != 1)}"
            self._refuse(place, f"{number}, but CoNLL-U has 10", "Put one tab between two columns")
            return
        for name, value in zip(_COLUMNS, columns, strict=True):
            if not value:
                self._refuse(place, f"{name} is empty", "Write _ for what is not known")
                return
        identifier, form, head = columns[0], columns[1], columns[6]
        if _WORD.fullmatch(identifier):
            self._add_word(int(identifier), form, head, place)
        elif match := _MULTIWORD.fullmatch(identifier):
            self._add_multiword(*map(int, match.groups()), place)
        elif match := _EMPTY_NODE.fullmatch(identifier):
            self._add_empty_node(*map(int, match.groups()), place)
        else:
            self._refuse(
                place,
                f"the ID must be a number (4), a range (4-5) or an empty node (4.1); got "
                f"{identifier!r}",
                "Put it right",
            )

    def _add_word(self, number, form, head, place):
        wanted = len(self._words) + 1
        if number != wanted:
            self._refuse(
                place,
                f"the ID must be {wanted}, the next word; got {number}",
                "Count the words of each sentence from 1, and put a blank line after it",
            )
        elif not _HEAD.fullmatch(head):
            self._refuse(
                place,
                f"the HEAD must be the number of a word, or 0 for the root; got {head!r}",
                "Parse the text before you use it",
            )
        else:
            self._words.append(form)
            self._heads.append(int(head))
            self._places.append(place)
            self._empty_nodes = 0

    def _add_multiword(self, first, last, place):
        wanted = len(self._words) + 1
        if first != wanted or last <= first or first <= self._multiword_end:
            self._refuse(
                place,
                f"the range must begin with the next word, {wanted}, and hold two or more, none of "
                f"them in another range; got {first}-{last}",
                "Put it right",
            )
        else:
            self._multiword_end = last

    def _add_empty_node(self, after, number, place):
        wanted = (len(self._words), self._empty_nodes + 1)
        if (after, number) != wanted:
            self._refuse(
                place,
                f"the empty node must be {wanted[0]}.{wanted[1]} here; got {after}.{number}",
                "Put it right",
            )
        else:
            self._empty_nodes = number

    def take(self, tally):
        """Yields the tree, or what is wrong with it; nothing if there was no line."""
        if not self._has_lines:
            return
        if self._flaw is None:
            self._check_whole(tally)
        if self._flaw is not None:
            yield self._flaw
        else:
            yield DependencyTree(tuple(self._words), tuple(self._heads))

    def _check_whole(self, tally):
        number_of_words = len(self._words)
        if not self._words:
            self._refuse(tally.place, "a sentence without words", "Take its comments out")
            return
        if self._multiword_end > number_of_words:
            self._refuse(
                self._places[-1],
                f"the sentence ends with word {number_of_words}, within the range up to "
                f"{self._multiword_end}",
                "Put the range or the words right",
            )
            return
        for place, head in zip(self._places, self._heads, strict=True):
            if head > number_of_words:
                self._refuse(
                    place,
                    f"the HEAD is {head}, but the sentence has {number_of_words} words",
                    "Put it right",
                )
                return
        if cycle := find_cycle(self._heads):
            way = " → ".join(map(str, [*cycle, cycle[0]]))
            self._refuse(
                self._places[cycle[0] - 1],
                f"the words {way} depend on each other in a circle",
                "Make one of them depend on a word outside",
            )
            return
        roots = [number for number, head in enumerate(self._heads, start=1) if head == 0]
        if len(roots) > 1:
            self._refuse(
                self._places[roots[1] - 1],
                f"word {roots[1]} is a second root beside word {roots[0]}",
                "A sentence has one root: make the other depend on it",
            )

    def _refuse(self, place, what, remedy):
        self._flaw = BadLine(f"{place}: {what}", remedy)
