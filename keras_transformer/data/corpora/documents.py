"""Documents for language models, in plain text files."""

from keras_transformer.data.corpora.corpus import ReadingRules
from keras_transformer.data.corpora.file_corpus import FileCorpus, find_files
from keras_transformer.data.corpora.text_file import TOO_LONG, BadLine

# Ten times what is allowed for a sentence: the longest encyclopedia articles fit.
DOCUMENT_RULES = ReadingRules(max_characters=1_000_000)


class LineDocuments(FileCorpus):
    """Documents for a language model, one on each line.

    For documents in JSON lines, see `JsonLinesCorpus` with `keys={"text": ...}`.

    Args:
        paths: A path, a pattern, or a list of them.
        rules: A `ReadingRules`; by default a document may have a million characters.

    Example:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "stories.txt")
    ...     _ = path.write_text("Once upon a time.\\nThe end.\\n")
    ...     list(LineDocuments(path))
    [('Once upon a time.',), ('The end.',)]
    """

    columns = ("text",)

    def __init__(self, paths, rules=DOCUMENT_RULES):
        super().__init__(find_files("paths", paths), rules)

    def settings(self):
        return {}

    def records(self, tally):
        for path in self.files:
            for line in self.lines(path, tally):
                yield (line,) if isinstance(line, str) else line


class BlankLineDocuments(FileCorpus):
    """Documents for a language model, with one or more blank lines between two of them.

    The lines of a document are joined by line feeds. A bad line makes its whole document bad: a
    text with a hole in it is no text. A document ends with its file.

    Args:
        paths: A path, a pattern, or a list of them.
        rules: A `ReadingRules`; by default a document may have a million characters.

    Example:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "poems.txt")
    ...     _ = path.write_text("Roses are red,\\nViolets are blue.\\n\\nThe end.\\n")
    ...     list(BlankLineDocuments(path))
    [('Roses are red,\\nViolets are blue.',), ('The end.',)]
    """

    columns = ("text",)

    def __init__(self, paths, rules=DOCUMENT_RULES):
        super().__init__(find_files("paths", paths), rules)

    def settings(self):
        return {}

    def records(self, tally):
        for path in self.files:
            document = _Document(self.rules.max_characters)
            for line in self.lines(path, tally):
                if isinstance(line, str) and (not line or line.isspace()):
                    tally.blank_lines += 1
                    yield from document.take()
                else:
                    document.add(line)
            yield from document.take()


class _Document:
    """The lines of one document so far, or what is wrong with it."""

    def __init__(self, max_characters):
        self._max_characters = max_characters
        self._start()

    def _start(self):
        self._lines = []
        self._characters = -1  # the first line has no line feed before it
        self._flaw = None

    def add(self, line):
        # A bad line outranks a length that is too great, as it does in a pair.
        if isinstance(self._flaw, BadLine):
            return
        if isinstance(line, str):
            self._characters += 1 + len(line)
            if self._characters > self._max_characters:
                self._flaw = TOO_LONG
        else:
            self._flaw = line
        if self._flaw is None:
            self._lines.append(line)
        else:
            self._lines.clear()

    def take(self):
        """Yields the document, if there is one, and starts the next."""
        if self._flaw is not None:
            yield self._flaw
        elif self._lines:
            yield ("\n".join(self._lines),)
        self._start()
