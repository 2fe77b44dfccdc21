"""Pairs of which the source is parsed: CoNLL-U, and a line of text for each sentence."""

import dataclasses
import re

import numpy as np

from keras_transformer.data.corpora.parallel import ParallelCorpus
from keras_transformer.data.corpora.text_file import TOO_LONG, BadLine, Tally


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


_WORD_LINE = re.compile(r"[1-9][0-9]*\t([^\t]+)(?:\t[^\t]+){8}\r?", re.ASCII)


def conllu_text(string):
    """Returns the words of a sentence in CoNLL-U, with a space between them.

    A string that is no CoNLL-U is given back as it is.

    >>> conllu_text("# a comment\\n1\\tDogs\\t_\\t_\\t_\\t_\\t0\\t_\\t_\\t_")
    'Dogs'
    >>> conllu_text("Dogs sleep")
    'Dogs sleep'
    """
    matches = map(_WORD_LINE.fullmatch, string.split("\n"))
    return " ".join(match[1] for match in matches if match) or string


def is_conllu_file(path):
    """Whether a file's name says that it holds CoNLL-U.

    >>> is_conllu_file("train.conllu.gz"), is_conllu_file("train.de")
    (True, False)
    """
    return str(path).lower().removesuffix(".gz").endswith(".conllu")


class ConlluCorpus(ParallelCorpus):
    """Pairs with a parsed source: sentence n of a CoNLL-U file goes with line n of a text file.

    The source's text is its words with a space between them, words in the sense of the format (see
    `read_sentences`): what the tree is about. `trees` gives the trees, for `TreeBatches`, and
    `parsed_examples` what a model that reads trees is given as strings.

    Args:
        source: A path of CoNLL-U, a pattern, or a list of them.
        target: The same for files of text. The first goes with the first source file, and so on.
        rules: A `ReadingRules`. With `on_bad_line="skip"` a sentence with a flaw is left out
            together with its target.

    Example:

    >>> import pathlib, tempfile
    >>> words = "1 Hunde _ _ _ _ 2 _ _ _", "2 schlafen _ _ _ _ 0 _ _ _", ""
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     german, english = pathlib.Path(folder, "de.conllu"), pathlib.Path(folder, "en.txt")
    ...     _ = german.write_text("\\n".join(words).replace(" ", "\\t"))
    ...     _ = english.write_text("Dogs sleep\\n")
    ...     corpus = ConlluCorpus(source=german, target=english)
    ...     list(corpus), [tree.depths() for tree in corpus.trees()]
    ([('Hunde schlafen', 'Dogs sleep')], [(2, 1)])
    """

    source_unit = "sentence"

    def read(self, tally):
        for tree, target in self._parsed(tally):
            yield tree.text, target

    def trees(self):
        """Yields the `DependencyTree` of each example, in the order of the examples."""
        for tree, _ in self._parsed(Tally()):
            yield tree

    def parsed_examples(self):
        """Yields the examples with their sources as CoNLL-U, see `DependencyTree.conllu`."""
        for tree, target in self._parsed(Tally()):
            yield tree.conllu, target

    def read_source(self, path, tally):
        for tree in read_sentences(self.lines(path, tally), tally):
            is_tree = isinstance(tree, DependencyTree)
            is_long = is_tree and len(tree.text) > self.rules.max_characters
            yield TOO_LONG if is_long else tree

    def _parsed(self, tally):
        """Yields tree and target of each example, after leaving out what the rules say."""
        for record in self.records(tally):
            if record is TOO_LONG:
                tally.too_long += 1
            elif not isinstance(record, tuple):
                tally.refuse(record, self.rules)
            elif not record[1] or record[1].isspace():
                tally.blank_lines += 1
            else:
                yield record
