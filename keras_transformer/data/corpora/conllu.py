"""CoNLL-U: dependency trees, reading of sentences, and pairs with a parsed source."""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import TOO_LONG, BadRecordError, Example, Tally, TooLong
from keras_transformer.data.corpora.file_corpus import Line, count_columns, is_blank
from keras_transformer.data.corpora.formats import register_format
from keras_transformer.data.corpora.parallel import ParallelCorpus


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
        if flaw := _find_flaw(self.heads):
            raise UserError(f"Not a tree: {flaw[0]}")

    @property
    def text(self) -> str:
        """The words, separated by spaces."""
        return " ".join(self.words)

    @property
    def conllu(self) -> str:
        """The tree in CoNLL-U, one line per word; only ID, FORM and HEAD are not empty."""
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
    """Returns the numbers of words that depend on each other in a cycle, if there is one."""
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


def _find_flaw(heads: Sequence[int]) -> tuple[str, str, int] | None:
    """Returns problem, fix and word of the first flaw of a tree."""
    for word, head in enumerate(heads, start=1):
        if not 0 <= head <= len(heads):
            problem = f"the HEAD of word {word} must be from 0 to {len(heads)}; got {head}."
            return problem, "Correct the line.", word
    if cycle := find_cycle(heads):
        words = " → ".join(map(str, [*cycle, cycle[0]]))
        problem = f"the words {words} depend on each other in a cycle."
        return problem, "Make one of them depend on another word.", cycle[0]
    return None


_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_WORD = re.compile(r"[1-9][0-9]*", re.ASCII)
_MULTIWORD = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)", re.ASCII)
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]*)\.([1-9][0-9]*)", re.ASCII)
_HEAD = re.compile(r"0|[1-9][0-9]*", re.ASCII)


#: The tree of a sentence, or its substitute.
Sentence: TypeAlias = DependencyTree | BadRecordError | TooLong


def read_sentences(lines: Iterable[Line], tally: Tally) -> Iterator[Sentence]:
    """Yields a `DependencyTree`, `BadRecordError` or `TOO_LONG` for each sentence.

    The format is CoNLL-U, version 2 (universaldependencies.org/format.html): comments, then a line
    of ten columns for each word, numbered from 1, then a blank line, which may be missing at the
    end of the file. The words are the nodes of the tree: the line of a multiword token ("zum", 3-4)
    is skipped in favor of its words ("zu", "dem"), and empty nodes (8.1) belong to the enhanced
    graph, not to the tree. A sentence with a flaw is bad as a whole. The lines are those of one
    file; the tally knows the position.
    """
    for is_gap, group in itertools.groupby(lines, key=is_blank):
        if not is_gap:
            yield _read_sentence(group, tally)


def _read_sentence(lines: Iterable[Line], tally: Tally) -> Sentence:
    """Returns the tree in the lines of one sentence, or its first flaw."""
    sentence = _Sentence(tally)
    try:
        for line in lines:
            if not isinstance(line, str):
                return line
            if not line.startswith("#"):
                sentence.add_columns(line.split("\t"))
            elif sentence.words:
                raise sentence.flaw("a comment inside a sentence.", "Move it before the words.")
        sentence.check_whole()
    except BadRecordError as flaw:
        return flaw
    return DependencyTree(tuple(sentence.words), tuple(sentence.heads))


class _Sentence:
    """The words of one sentence so far."""

    def __init__(self, tally: Tally) -> None:
        self.words: list[str] = []
        self.heads: list[int] = []
        self._tally = tally
        self._locations: list[str] = []
        self._multiword_end = self._empty_nodes = 0

    def flaw(
        self, problem: str, fix: str = "Correct the line.", word: int | None = None
    ) -> BadRecordError:
        """Returns an error in the current line, or in that of a word."""
        where = self._tally.where if word is None else self._locations[word - 1]
        return BadRecordError(problem, where=where, fix=fix)

    def add_columns(self, columns: list[str]) -> None:
        if len(columns) != len(_COLUMNS):
            problem = f"{count_columns(len(columns))}, but CoNLL-U has 10."
            raise self.flaw(problem, "Put one tab between two columns.")
        for name, value in zip(_COLUMNS, columns, strict=True):
            if not value:
                raise self.flaw(f"{name} is empty.", "Write _ for unknown values.")
        identifier, form, head, count = columns[0], columns[1], columns[6], len(self.words)
        if _WORD.fullmatch(identifier):
            self._add_word(int(identifier), form, head)
        elif match := _MULTIWORD.fullmatch(identifier):
            first, last = int(match[1]), int(match[2])
            if first != count + 1 or last <= first or first <= self._multiword_end:
                raise self.flaw(
                    f"the range must start at the next word, {count + 1}, and contain two or more "
                    f"words that are in no other range; got {identifier}."
                )
            self._multiword_end = last
        elif _EMPTY_NODE.fullmatch(identifier):
            expected = f"{count}.{self._empty_nodes + 1}"
            if identifier != expected:
                raise self.flaw(f"the empty node must be {expected} here; got {identifier}.")
            self._empty_nodes += 1
        else:
            expected = "a number (4), a range (4-5) or an empty node (4.1)"
            raise self.flaw(f"the ID must be {expected}; got {identifier!r}.")

    def _add_word(self, number: int, form: str, head: str) -> None:
        expected = len(self.words) + 1
        if number != expected:
            raise self.flaw(
                f"the ID must be {expected}, the next word; got {number}.",
                "Number the words of each sentence from 1, and put a blank line after it.",
            )
        if not _HEAD.fullmatch(head):
            problem = f"the HEAD must be the number of a word, or 0 for the root; got {head!r}."
            raise self.flaw(problem, "Parse the text first.")
        self.words.append(form)
        self.heads.append(int(head))
        self._locations.append(self._tally.where)
        self._empty_nodes = 0

    def check_whole(self) -> None:
        count = len(self.words)
        if not count:
            raise self.flaw("a sentence without words.", "Remove its comments.")
        if self._multiword_end > count:
            inside = f"inside the range up to {self._multiword_end}"
            raise self.flaw(f"the sentence ends with word {count}, {inside}.", word=count)
        if flaw := _find_flaw(self.heads):
            raise self.flaw(*flaw)
        roots = [word for word, head in enumerate(self.heads, start=1) if head == 0]
        if len(roots) > 1:
            problem = f"word {roots[1]} is a second root besides word {roots[0]}."
            fix = "A sentence has one root: make the other word depend on it."
            raise self.flaw(problem, fix, roots[1])


_WORD_LINE = re.compile(r"[1-9][0-9]*\t([^\t]+)(?:\t[^\t]+){8}\r?", re.ASCII)


def conllu_text(string: str) -> str:
    """Returns the words of a sentence in CoNLL-U, separated by spaces, and other text unchanged.

    >>> conllu_text(DependencyTree(("Dogs", "sleep"), heads=(2, 0)).conllu)
    'Dogs sleep'
    """
    matches = map(_WORD_LINE.fullmatch, string.split("\n"))
    return " ".join(match[1] for match in matches if match) or string


def is_conllu_file(path: Path) -> bool:
    """Returns whether a file has the extension of CoNLL-U; ".gz" may follow it."""
    return ConlluCorpus.claims([path])


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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     german, english = pathlib.Path(folder, "de.conllu"), pathlib.Path(folder, "en.txt")
    ...     _ = german.write_text(DependencyTree(("Hunde", "schlafen"), heads=(2, 0)).conllu)
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

    def read_source(self, path: str, tally: Tally) -> Iterator[Sentence]:
        for tree in read_sentences(self.lines(path, tally), tally):
            is_tree = isinstance(tree, DependencyTree)
            is_long = is_tree and len(tree.text) > self.rules.max_characters
            yield TOO_LONG if is_long else tree

    def _parsed(self, tally: Tally) -> Iterator[tuple[DependencyTree, str]]:
        """Yields tree and target of each example that the rules do not skip."""
        for record in self.records(tally):
            if isinstance(record, TooLong | BadRecordError):
                tally.skip(record, self.rules)
            elif is_blank(record[1]):
                tally.blank_lines += 1
            else:
                yield record
