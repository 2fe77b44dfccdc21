"""CoNLL-U: dependency trees, reading of sentences, and pairs with a parsed source."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import TOO_LONG, BadRecordError, Example, Tally, TooLong
from keras_transformer.data.corpora.file_corpus import file_extension
from keras_transformer.data.corpora.formats import register_format
from keras_transformer.data.corpora.parallel import ParallelCorpus
from keras_transformer.data.corpora.text_file import Line, count_columns


@dataclasses.dataclass(frozen=True)
class DependencyTree:
    """The dependency tree of a sentence. Words are numbered from 1; 0 is above the root.

    Args:
        words: The words in the order of the sentence.
        heads: For each word, the number of the word that it depends on; 0 for the root.

    >>> tree = DependencyTree(("The", "old", "dog", "sleeps"), heads=(3, 3, 4, 0))
    >>> tree.text, tree.depths()
    ('The old dog sleeps', (3, 3, 2, 1))
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.words or len(self.words) != len(self.heads):
            raise UserError(
                "A tree needs at least one word and a head for each word; got "
                f"{len(self.words)} words and {len(self.heads)} heads."
            )
        for n, head in enumerate(self.heads, start=1):
            if not 0 <= head <= len(self.words):
                allowed = f"from 0 to {len(self.words)}"
                raise UserError(f"The head of word {n} must be {allowed}; got {head}.")
        if cycle := find_cycle(self.heads):
            raise UserError(f"A tree must not have a cycle; got the words {_arrows(cycle)}.")

    @property
    def text(self) -> str:
        """The words, separated by spaces."""
        return " ".join(self.words)

    @property
    def conllu(self) -> str:
        """The tree in CoNLL-U, one line per word; columns other than ID, FORM and HEAD are empty.

        >>> DependencyTree(("Dogs", "sleep"), heads=(2, 0)).conllu.splitlines()[0]
        '1\\tDogs\\t_\\t_\\t_\\t_\\t2\\t_\\t_\\t_'
        """
        words = zip(self.words, self.heads, strict=True)
        return "\n".join(
            "\t".join([str(number), word, *"____", str(head), *"___"])
            for number, (word, head) in enumerate(words, start=1)
        )

    def depths(self) -> tuple[int, ...]:
        """Returns for each word the number of steps up to 0: 1 for the root.

        This is the absolute position of Wang et al. 2019, "Self-Attention with Structural Position
        Representations", section 3.1, except that the paper counts the root as 0.
        """
        depths: list[Any] = [0] + [None] * len(self.heads)
        for start in range(1, len(depths)):
            path, number = [], start
            while depths[number] is None:
                path.append(number)
                number = self.heads[number - 1]
            for steps, passed in enumerate(reversed(path), start=1):
                depths[passed] = depths[number] + steps
        return tuple(depths[1:])

    def distances(self) -> np.ndarray:
        """Returns the number of steps along the tree between all words: int32 `[words, words]`.

        >>> DependencyTree(("old", "dogs", "sleep"), heads=(2, 3, 0)).distances()
        array([[0, 1, 2],
               [1, 0, 1],
               [2, 1, 0]], dtype=int32)
        """
        depths = np.array(self.depths(), np.int32)
        is_ancestor = np.zeros((len(depths), len(depths)), np.int32)  # or the word itself
        for index in np.argsort(depths, kind="stable"):  # heads before their dependents
            head = self.heads[index]
            if head:
                is_ancestor[index] = is_ancestor[head - 1]
            is_ancestor[index, index] = 1
        shared = is_ancestor @ is_ancestor.T
        return depths[:, None] + depths[None, :] - 2 * shared


def find_cycle(heads: Sequence[int]) -> list[int]:
    """Returns the numbers of words that depend on each other in a cycle; an empty list in a tree.

    >>> find_cycle([2, 3, 2])
    [2, 3]
    """
    reached_from: list[int | None] = [0] + [None] * len(heads)  # the first start that reached it
    for start in range(1, len(heads) + 1):
        path, number = [], start
        while reached_from[number] is None:
            reached_from[number] = start
            path.append(number)
            number = heads[number - 1]
        if reached_from[number] == start:
            return path[path.index(number) :]
    return []


def _arrows(cycle: Sequence[int]) -> str:
    return " → ".join(map(str, [*cycle, cycle[0]]))


_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_WORD = re.compile(r"[1-9][0-9]*", re.ASCII)
_MULTIWORD = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)", re.ASCII)
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]*)\.([1-9][0-9]*)", re.ASCII)
_HEAD = re.compile(r"0|[1-9][0-9]*", re.ASCII)


def read_sentences(
    lines: Iterable[Line], tally: Tally
) -> Iterator[DependencyTree | BadRecordError | TooLong]:
    """Yields a `DependencyTree`, `BadRecordError` or `TOO_LONG` for each sentence.

    The format is CoNLL-U, version 2 (universaldependencies.org/format.html): comments, then a line
    of ten columns for each word, numbered from 1, then a blank line, which may be missing at the
    end of the file. The words are the nodes of the tree: the line of a multiword token ("zum", 3-4)
    is skipped in favor of its words ("zu", "dem"), and empty nodes (8.1) belong to the enhanced
    graph, not to the tree. A sentence with a flaw is bad as a whole.

    Args:
        lines: Lines of one file, from `read_lines`.
        tally: Their `Tally`, which knows the position.
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
    """The words of one sentence so far, or its first flaw."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._heads: list[int] = []
        self._locations: list[str] = []
        self._multiword_end = self._empty_nodes = 0
        self._has_lines = False
        self._flaw: BadRecordError | TooLong | None = None

    def add(self, line: Line, tally: Tally) -> None:
        self._has_lines = True
        if self._flaw is not None:
            return
        try:
            if not isinstance(line, str):
                self._flaw = line
            elif not line.startswith("#"):
                self._add_columns(line.split("\t"), tally.where)
            elif self._words:
                problem, fix = "a comment inside a sentence.", "Move it before the words."
                raise _flaw(tally.where, problem, fix)
        except BadRecordError as flaw:
            self._flaw = flaw

    def _add_columns(self, columns: list[str], where: str) -> None:
        if len(columns) != len(_COLUMNS):
            number = count_columns(len(columns))
            fix = "Put one tab between two columns."
            raise _flaw(where, f"{number}, but CoNLL-U has 10.", fix)
        for name, value in zip(_COLUMNS, columns, strict=True):
            if not value:
                raise _flaw(where, f"{name} is empty.", "Write _ for unknown values.")
        identifier, form, head = columns[0], columns[1], columns[6]
        if _WORD.fullmatch(identifier):
            self._add_word(int(identifier), form, head, where)
        elif match := _MULTIWORD.fullmatch(identifier):
            self._add_multiword(int(match[1]), int(match[2]), where)
        elif match := _EMPTY_NODE.fullmatch(identifier):
            self._add_empty_node(int(match[1]), int(match[2]), where)
        else:
            expected = "a number (4), a range (4-5) or an empty node (4.1)"
            raise _flaw(where, f"the ID must be {expected}; got {identifier!r}.")

    def _add_word(self, number: int, form: str, head: str, where: str) -> None:
        expected = len(self._words) + 1
        if number != expected:
            raise _flaw(
                where,
                f"the ID must be {expected}, the next word; got {number}.",
                "Number the words of each sentence from 1, and put a blank line after it.",
            )
        if not _HEAD.fullmatch(head):
            raise _flaw(
                where,
                f"the HEAD must be the number of a word, or 0 for the root; got {head!r}.",
                "Parse the text first.",
            )
        self._words.append(form)
        self._heads.append(int(head))
        self._locations.append(where)
        self._empty_nodes = 0

    def _add_multiword(self, first: int, last: int, where: str) -> None:
        expected = len(self._words) + 1
        if first != expected or last <= first or first <= self._multiword_end:
            raise _flaw(
                where,
                f"the range must start at the next word, {expected}, and contain two or more "
                f"words that are in no other range; got {first}-{last}.",
            )
        self._multiword_end = last

    def _add_empty_node(self, after: int, number: int, where: str) -> None:
        expected = (len(self._words), self._empty_nodes + 1)
        if (after, number) != expected:
            node = f"{expected[0]}.{expected[1]}"
            raise _flaw(where, f"the empty node must be {node} here; got {after}.{number}.")
        self._empty_nodes = number

    def take(self, tally: Tally) -> Iterator[DependencyTree | BadRecordError | TooLong]:
        """Yields the tree, or its flaw; nothing if there was no line."""
        if not self._has_lines:
            return
        try:
            if self._flaw is None:
                self._check_whole(tally)
        except BadRecordError as flaw:
            self._flaw = flaw
        yield self._flaw or DependencyTree(tuple(self._words), tuple(self._heads))

    def _check_whole(self, tally: Tally) -> None:
        count = len(self._words)
        if not count:
            raise _flaw(tally.where, "a sentence without words.", "Remove its comments.")
        if self._multiword_end > count:
            problem = f"ends with word {count}, inside the range up to {self._multiword_end}."
            raise _flaw(self._locations[-1], f"the sentence {problem}")
        for where, head in zip(self._locations, self._heads, strict=True):
            if head > count:
                raise _flaw(where, f"the HEAD is {head}, but the sentence has {count} words.")
        if cycle := find_cycle(self._heads):
            raise _flaw(
                self._locations[cycle[0] - 1],
                f"the words {_arrows(cycle)} depend on each other in a cycle.",
                "Make one of them depend on another word.",
            )
        roots = [number for number, head in enumerate(self._heads, start=1) if head == 0]
        if len(roots) > 1:
            raise _flaw(
                self._locations[roots[1] - 1],
                f"word {roots[1]} is a second root besides word {roots[0]}.",
                "A sentence has one root: make the other word depend on it.",
            )


def _flaw(where: str, problem: str, fix: str = "Correct the line.") -> BadRecordError:
    return BadRecordError(problem, where=where, fix=fix)


_WORD_LINE = re.compile(r"[1-9][0-9]*\t([^\t]+)(?:\t[^\t]+){8}\r?", re.ASCII)


def conllu_text(string: str) -> str:
    """Returns the words of a sentence in CoNLL-U, separated by spaces.

    A string that is not CoNLL-U is returned unchanged.

    >>> conllu_text("# a comment\\n1\\tDogs\\t_\\t_\\t_\\t_\\t0\\t_\\t_\\t_")
    'Dogs'
    >>> conllu_text("Dogs sleep")
    'Dogs sleep'
    """
    matches = map(_WORD_LINE.fullmatch, string.split("\n"))
    return " ".join(match[1] for match in matches if match) or string


def is_conllu_file(path: Path) -> bool:
    """Returns whether the name of a file has the extension of CoNLL-U.

    >>> is_conllu_file("train.conllu.gz"), is_conllu_file("train.de")
    (True, False)
    """
    return file_extension(path) in ConlluCorpus.extensions


@register_format("conllu")
class ConlluCorpus(ParallelCorpus):
    """Pairs with a parsed source: sentence n of a CoNLL-U file belongs to line n of a text file.

    The text of a source is its words, separated by spaces; words are the nodes of the tree (see
    `read_sentences`). `trees` yields the trees, for `TreeBatches`; `parsed_examples` yields the
    sources in CoNLL-U, as models that read trees take them.

    Args:
        source: A path of a CoNLL-U file, a pattern, or a list of them.
        target: The same for text files. The first belongs to the first source file, and so on.
        rules: A `ReadingRules`. A bad sentence is skipped together with its target.

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

    title: ClassVar[str] = "a CoNLL-U file with parsed sources, and a text file with targets"
    extensions: ClassVar[tuple[str, ...]] = (".conllu",)
    source_unit: ClassVar[str] = "sentence"
    source_type: ClassVar[type] = DependencyTree

    def read(self, tally: Tally) -> Iterator[Example]:
        for tree, target in self._parsed(tally):
            yield tree.text, target

    def trees(self) -> Iterator[DependencyTree]:
        """Yields the `DependencyTree` of each example, in the order of the examples."""
        for tree, _ in self._parsed(Tally()):
            yield tree

    def parsed_examples(self) -> Iterator[Example]:
        """Yields the examples with their sources in CoNLL-U (`DependencyTree.conllu`)."""
        for tree, target in self._parsed(Tally()):
            yield tree.conllu, target

    def read_source(
        self, path: str, tally: Tally
    ) -> Iterator[DependencyTree | BadRecordError | TooLong]:
        for tree in read_sentences(self.lines(path, tally), tally):
            is_tree = isinstance(tree, DependencyTree)
            is_long = is_tree and len(tree.text) > self.rules.max_characters
            yield TOO_LONG if is_long else tree

    def _parsed(self, tally: Tally) -> Iterator[tuple[DependencyTree, str]]:
        """Yields tree and target of each example that the rules do not skip."""
        for record in self.aligned(tally):
            if isinstance(record, TooLong | BadRecordError):
                tally.skip(record, self.rules)
            elif not record[1] or record[1].isspace():
                tally.blank_lines += 1
            else:
                yield record
