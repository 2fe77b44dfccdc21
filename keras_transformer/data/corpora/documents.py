"""Documents for language models, in plain text files."""

from collections.abc import Iterator
from typing import ClassVar

from keras_transformer.data.corpora.corpus import (
    TOO_LONG,
    BadRecordError,
    ReadingRules,
    Record,
    Tally,
    TooLong,
)
from keras_transformer.data.corpora.file_corpus import Paths, find_files
from keras_transformer.data.corpora.formats import MAX_DOCUMENT_CHARACTERS, register_format
from keras_transformer.data.corpora.text_file import Line, TextFileCorpus

_RULES = ReadingRules(max_characters=MAX_DOCUMENT_CHARACTERS)


@register_format("line-documents")
class LineDocuments(TextFileCorpus):
    """Documents for a language model, one per line.

    `JsonLinesCorpus` with `keys={"text": ...}` reads documents in JSON lines.

    Args:
        paths: A path, a pattern, or a list of them.
        rules: A `ReadingRules`. By default a document may have a million characters.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "stories.txt")
    ...     _ = path.write_text("Once upon a time.\\nThe end.\\n")
    ...     list(LineDocuments(path))
    [('Once upon a time.',), ('The end.',)]
    """

    title: ClassVar[str] = "one document per line"
    columns: tuple[str, ...] = ("text",)

    def __init__(self, paths: Paths, rules: ReadingRules = _RULES) -> None:
        super().__init__(find_files("paths", paths), rules)

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

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "poems.txt")
    ...     _ = path.write_text("Roses are red,\\nViolets are blue.\\n\\nThe end.\\n")
    ...     list(BlankLineDocuments(path))
    [('Roses are red,\\nViolets are blue.',), ('The end.',)]
    """

    title: ClassVar[str] = "documents separated by blank lines"

    def records(self, tally: Tally) -> Iterator[Record]:
        for path in self.files:
            document = _Document(self.rules.max_characters)
            for line in self.lines(path, tally):
                if isinstance(line, str) and (not line or line.isspace()):
                    tally.blank_lines += 1
                    yield from document.take()
                    document = _Document(self.rules.max_characters)
                else:
                    document.add(line)
            yield from document.take()


class _Document:
    """The lines of one document so far, or its first flaw."""

    def __init__(self, max_characters: int) -> None:
        self._free_characters = max_characters + 1  # no line feed precedes the first line
        self._lines: list[str] = []
        self._flaw: BadRecordError | TooLong | None = None

    def add(self, line: Line) -> None:
        # A bad line is reported rather than an excessive length, as in a pair.
        if isinstance(self._flaw, BadRecordError):
            return
        if not isinstance(line, str):
            self._flaw = line
            return
        self._free_characters -= 1 + len(line)
        if self._free_characters < 0:
            self._flaw = TOO_LONG
            self._lines.clear()
        elif self._flaw is None:
            self._lines.append(line)

    def take(self) -> Iterator[Record]:
        """Yields the document, if there is one."""
        if self._flaw is not None:
            yield self._flaw
        elif self._lines:
            yield ("\n".join(self._lines),)
