"""Documents for language models, in plain text files."""

import itertools
from collections.abc import Iterable, Iterator
from typing import ClassVar

from keras_transformer.data.corpora.corpus import (
    TOO_LONG,
    BadRecordError,
    ReadingRules,
    Record,
    Tally,
    TooLong,
)
from keras_transformer.data.corpora.file_corpus import Line, Paths, TextFileCorpus, is_blank
from keras_transformer.data.corpora.formats import MAX_DOCUMENT_CHARACTERS, register_format

_RULES = ReadingRules(max_characters=MAX_DOCUMENT_CHARACTERS)


@register_format("line-documents")
class LineDocuments(TextFileCorpus):
    """Documents for a language model, one per line.

    Args:
        paths: A path, a pattern, or a list of them.
        rules: A `ReadingRules`. By default a document may have a million characters.
    """

    title: ClassVar[str] = "one document per line"
    columns: tuple[str, ...] = ("text",)

    def __init__(self, paths: Paths, rules: ReadingRules = _RULES) -> None:
        super().__init__(paths, rules)

    def records(self, tally: Tally) -> Iterator[Record]:
        for path in self.files:
            for line in self.lines(path, tally):
                yield (line,) if isinstance(line, str) else line


@register_format("blank-line-documents")
class BlankLineDocuments(LineDocuments):
    """Documents for a language model, separated by one or more blank lines.

    The lines of a document are joined by line feeds. A bad line makes its whole document bad,
    because a text with a gap is not the text. A document ends with its file.

    Args:
        paths: A path, a pattern, or a list of them.
        rules: A `ReadingRules`. By default a document may have a million characters.
    """

    title: ClassVar[str] = "documents separated by blank lines"

    def records(self, tally: Tally) -> Iterator[Record]:
        for path in self.files:
            for is_gap, lines in itertools.groupby(self.lines(path, tally), key=is_blank):
                if is_gap:
                    tally.blank_lines += sum(1 for _ in lines)
                else:
                    yield self._join(lines)

    def _join(self, lines: Iterable[Line]) -> Record:
        """Returns a document; a bad line is reported rather than an excessive length."""
        texts: list[str] = []
        free_characters = self.rules.max_characters + 1  # no line feed precedes the first line
        for line in lines:
            if isinstance(line, BadRecordError):
                return line
            if isinstance(line, TooLong):
                free_characters = -1
            else:
                free_characters -= 1 + len(line)
                texts.append(line)
            if free_characters < 0:
                texts.clear()
        return TOO_LONG if free_characters < 0 else ("\n".join(texts),)
