"""Sentences in CoNLL-U among the lines that are read, and files that are read so."""

from keras_transformer.data.corpora.conllu_text import conllu_text, is_conllu_file
from keras_transformer.data.corpora.text_file import open_file
from keras_transformer.errors import UserError
from keras_transformer.inference.lines import LineReader


class SentenceReader:
    """The sentences of a `LineReader` whose lines are CoNLL-U: an iterator of strings.

    A sentence ends with a blank line. A line that can be in no sentence of CoNLL-U, as it has no
    tab and is no comment, is a sentence of its own: plain text.

    Args:
        lines: the `LineReader`.
        is_text: whether a sentence is given as its words with a space between them, for models that
            read no trees; else as CoNLL-U.

    Example:

    >>> class Lines(list):
    ...     name = "made up"
    >>> words = ["1 Dogs _ _ _ _ 2 _ _ _", "2 sleep _ _ _ _ 0 _ _ _"]
    >>> words = [word.replace(" ", "\\t") for word in words]
    >>> list(SentenceReader(Lines(["# sent_id = 1", *words, "", "Good night"]), is_text=True))
    ['Dogs sleep', 'Good night']
    """

    def __init__(self, lines, is_text=False):
        self.name = lines.name
        self._lines = lines
        self._sentences = self._read()
        self._convert = conllu_text if is_text else str

    def __iter__(self):
        return self

    def __next__(self):
        return self._convert(next(self._sentences))

    @property
    def is_terminal(self):
        """Whether a person types the lines."""
        return self._lines.is_terminal

    def must_wait(self):
        """Whether the next line has not come yet, see `LineReader.must_wait`."""
        return self._lines.must_wait()

    def _read(self):
        sentence = []
        for line in self._lines:
            if "\t" in line or line.startswith("#"):
                sentence.append(line)
                continue
            if sentence:
                yield "\n".join(sentence)
                sentence = []
            if line and not line.isspace():
                yield line
        if sentence:
            yield "\n".join(sentence)


def as_sources(lines, path, text_model):
    """Returns an iterator of what a model is given of the lines of a file.

    They are sentences where the file's name ends with .conllu, and where standard input is for a
    model that reads trees; else the lines as they are.

    Args:
        lines: the `LineReader`.
        path: of the file; None for standard input.
        text_model: the `TextModel`.
    """
    is_parsed = text_model.reads_trees if path is None else is_conllu_file(path)
    return SentenceReader(lines, is_text=not text_model.reads_trees) if is_parsed else lines


def count_sources(path, encoding_errors="error"):
    """Returns how many lines, or sentences of CoNLL-U, a file has.

    Whatever is wrong with any line of it is known afterwards.

    Args:
        path: A regular file, as it is to be read again.
        encoding_errors: As for `LineReader`.
    """
    open_file(path).close()
    with LineReader(path, encoding_errors) as lines:
        return sum(1 for _ in (SentenceReader(lines) if is_conllu_file(path) else lines))


def require_parallel(paths, encoding_errors="error"):
    """Returns how many lines each of the files has; an error if they differ, or have none.

    Args:
        paths: One or more regular files; line n of one goes with line n of the others. Of a file
            that ends with .conllu it is sentence n.
        encoding_errors: As for `LineReader`.
    """
    counts = [count_sources(path, encoding_errors) for path in paths]
    units = ["sentence" if is_conllu_file(path) else "line" for path in paths]
    for path, unit, count in zip(paths, units, counts, strict=True):
        if count != counts[0]:
            raise UserError(
                f"{paths[0]}: {units[0]} count {counts[0]:,}, but {path}: {unit} count {count:,}. "
                f"{units[0].capitalize()} n of one must go with {unit} n of the other: find what "
                "is missing."
            )
    if not counts[0]:
        raise UserError(f"{paths[0]}: no {units[0]}s. Check that this is the right file.")
    return counts[0]
