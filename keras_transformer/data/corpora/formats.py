"""Registry of the corpus formats, and `open_corpus`, which opens files in any of them."""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.registry import register
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import Corpus, LabeledCorpus, ReadingRules, Tally
from keras_transformer.data.corpora.file_corpus import FileCorpus, TextFileCorpus

#: The registered formats: classes of corpora in files, by name.
FORMATS: dict[str, type[FileCorpus]] = {}

_Format = TypeVar("_Format", bound=type[FileCorpus])

#: Longest document by default. The longest encyclopedia articles have fewer characters.
MAX_DOCUMENT_CHARACTERS = 1_000_000

# Formats of files whose names have no registered extension, by the number of paths.
_DEFAULT_FORMATS = {1: "line-documents", 2: "parallel"}
_SNIFFED_LINES = 20


def register_format(name: str) -> Callable[[_Format], _Format]:
    """Returns a decorator that makes a `FileCorpus` class available by name."""
    return register(FORMATS, name)


def open_corpus(
    files: Sequence[Path],
    *,
    format: str | None = None,
    on_bad_line: str = "error",
    encoding_errors: str = "error",
    labels: Iterable[str] | None = None,
    **options: Any,
) -> Corpus:
    """Returns the corpus in some files.

    Args:
        files: A list of paths or patterns; two, source and target, for "parallel" and "conllu".
        format: A name in `FORMATS`. Default: `guess_format(files)`.
        on_bad_line: `"error"` or `"skip"` for lines that break the format, as in `ReadingRules`.
        encoding_errors: `"error"` or `"replace"` for bytes that are not UTF-8.
        labels: Labels that may occur, such as those of the training corpus. Default: all labels.
        **options: Options of the format, such as `columns` for "tsv"; `FORMATS[name].options`
            describes them. Options that are None or False are ignored.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "pairs.tsv")
    ...     _ = path.write_text("Danke\\tThank you\\n")
    ...     list(open_corpus([path]))
    [('Danke', 'Thank you')]
    """
    columns = find_columns(files, format=format, **options)
    kind = FORMATS[format or guess_format(files)]
    if format is None:
        _check_content(kind, files)
    limit = MAX_DOCUMENT_CHARACTERS if columns == ("text",) else ReadingRules.max_characters
    rules = ReadingRules(on_bad_line, encoding_errors, limit)
    corpus = kind.open(files, rules, **_given(options))
    return LabeledCorpus(corpus, labels) if "label" in columns else corpus


def find_columns(
    files: Sequence[Path], *, format: str | None = None, **options: Any
) -> tuple[str, ...]:
    """Returns the columns of the corpus that `open_corpus` would return, without opening files."""
    name = guess_format(files) if format is None else require_choice("format", format, FORMATS)
    options = _given(options)
    for option in options:
        if option not in FORMATS[name].options:
            others = [other for other, kind in FORMATS.items() if option in kind.options]
            owners = f"it is one of {' and '.join(others)}" if others else "no format has it"
            raise UserError(
                f"is not an option of the format {name}; {owners}.",
                argument=option,
                fix=f"Options of {name}: {', '.join(FORMATS[name].options) or 'none'}.",
            )
    return FORMATS[name].find_columns(files, **options)


def guess_format(files: Sequence[Path]) -> str:
    """Returns a name in `FORMATS` that fits the number of files and their extensions.

    Without a registered extension, two files are "parallel" and one has "line-documents".

    >>> guess_format(["pairs.tsv.gz"]), guess_format(["train.de", "train.en"])
    ('tsv', 'parallel')
    """
    for name, kind in FORMATS.items():
        if files and kind.claims(files):
            return name
    known = tuple(extension for kind in FORMATS.values() for extension in kind.extensions)
    is_known = any(os.fspath(file).lower().removesuffix(".gz").endswith(known) for file in files)
    if not is_known and len(files) in _DEFAULT_FORMATS:
        return _DEFAULT_FORMATS[len(files)]
    problem = f"cannot be guessed for these {len(files)} files ({', '.join(map(str, files[:3]))})."
    raise UserError(problem, argument="format", fix=f"Give one of {', '.join(sorted(FORMATS))}.")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (None, False)}


def _check_content(kind: type[FileCorpus], files: Sequence[Path]) -> None:
    """Raises if files that are documents by their names look like another format."""
    name = kind.registered_name
    if name != _DEFAULT_FORMATS[1]:
        return
    rules = ReadingRules(max_characters=MAX_DOCUMENT_CHARACTERS)
    examples = itertools.islice(kind.open(files, rules).read(Tally()), _SNIFFED_LINES)
    lines = [text for (text,) in examples]
    for other, other_kind in FORMATS.items():
        if issubclass(other_kind, TextFileCorpus) and lines and other_kind.looks_like(lines):
            problem = f"looks like {other}, but its extension is not one of that format."
            fix = f"Set `format` to {other}, or to {name} if each line is a document."
            raise UserError(problem, where=files[0], fix=fix)
