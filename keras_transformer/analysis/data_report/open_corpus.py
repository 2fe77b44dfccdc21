"""From files and a few words about them to a corpus: what a person gives to the data report."""

import dataclasses
import itertools
import json
import os
import pathlib

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer.analysis.data_report.picture import draw_data_report
from keras_transformer.analysis.data_report.report import FORMAT
from keras_transformer.data.corpora.conllu import ConlluCorpus, is_conllu_file
from keras_transformer.data.corpora.corpus import ReadingRules, find_column_set
from keras_transformer.data.corpora.documents import (
    DOCUMENT_RULES,
    BlankLineDocuments,
    LineDocuments,
)
from keras_transformer.data.corpora.file_corpus import find_files
from keras_transformer.data.corpora.json_lines import JsonLinesCorpus
from keras_transformer.data.corpora.labeled import LabeledCorpus
from keras_transformer.data.corpora.parallel import ParallelCorpus
from keras_transformer.data.corpora.tsv import TsvCorpus

JSON_NAME = "report.json"
PICTURE_NAME = "report.png"


def require_report_directory(output):
    """Returns the directory, there or not yet, if a report may be written into it.

    An earlier report may be there and will be replaced; other files of the same names never are.
    Nothing is made: a run that fails leaves nothing behind.
    """
    directory = pathlib.Path(os.path.abspath(output))
    nearest = next(path for path in [directory, *directory.parents] if os.path.lexists(path))
    if not nearest.is_dir():
        raise _not_writable(directory, f"{nearest} is not a directory")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _not_writable(directory, f"{nearest}: permission denied")
    taken = [name for name in (JSON_NAME, PICTURE_NAME) if os.path.lexists(directory / name)]
    if taken and not _is_report(directory / JSON_NAME):
        raise UserError(
            f"{directory / taken[0]}: exists and is not of a data report. Name another directory "
            "with `output`, or move the file away."
        )
    return directory


def save_data_report(report, output):
    """Writes both files, each whole or not at all; returns their paths.

    Args:
        report: from `make_data_report`.
        output: the directory, see `require_report_directory`.
    """
    directory = require_report_directory(output)
    picture = draw_data_report(report)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(directory, error.strerror) from error
    # One line for each key: as short as can be, and still to be searched with grep.
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in report.items())
    with atomic_file(directory / JSON_NAME) as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    with atomic_file(directory / PICTURE_NAME, "wb") as file:
        file.write(picture)
    return directory / JSON_NAME, directory / PICTURE_NAME


def _is_report(path):
    try:
        return json.loads(path.read_bytes())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _not_writable(directory, reason):
    return UserError(
        f"{directory}: the report cannot be written there ({reason}). Name another directory with "
        "`output`."
    )


KINDS = ("parallel", "conllu", "tsv", "json-lines", "line-documents", "blank-line-documents")

_KIND_OF_ENDING = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
}


def open_corpus(
    files,
    *,
    kind=None,
    columns=None,
    has_header=False,
    keys=None,
    on_bad_line="error",
    encoding_errors="error",
    labels=None,
):
    """Returns the corpus in some files.

    Args:
        files: a list of paths or patterns; of parallel files, the source and the target, and so
            with "conllu", where the source is CoNLL-U.
        kind: one of `KINDS`; None guesses it, see `guess_kind`.
        columns: the names of a TSV file's columns; by default source and target.
        has_header: whether the first line of a TSV file holds names.
        keys: a mapping from columns to the keys in JSON lines.
        on_bad_line: as in `ReadingRules`.
        encoding_errors: as in `ReadingRules`.
        labels: the labels that may occur, if the corpus is for validation and has any.

    Example:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "pairs.tsv")
    ...     _ = path.write_text("Danke\\tThank you\\n")
    ...     list(open_corpus([path]))
    [('Danke', 'Thank you')]
    """
    if kind is None:
        kind = guess_kind(files)
        _require_no_table(kind, files)
    require_choice("kind", kind, KINDS)
    _require_fitting_names(kind, columns, has_header, keys)
    rules = ReadingRules(on_bad_line=on_bad_line, encoding_errors=encoding_errors)
    document_rules = dataclasses.replace(rules, max_characters=DOCUMENT_RULES.max_characters)
    if kind in ("parallel", "conllu"):
        return _open_pair(kind, files, rules)
    if kind == "line-documents":
        return LineDocuments(files, document_rules)
    if kind == "blank-line-documents":
        return BlankLineDocuments(files, document_rules)
    if kind == "tsv":
        corpus = TsvCorpus(files, columns or ("source", "target"), has_header, rules)
    elif keys:
        is_text_alone = set(keys) == {"text"}
        corpus = JsonLinesCorpus(files, keys, document_rules if is_text_alone else rules)
    else:
        raise UserError(
            f"{files[0]}: JSON lines need the keys of their texts. Give them with `keys`, for "
            "example source=en,target=de or text=body."
        )
    return LabeledCorpus(corpus, labels) if "label" in corpus.columns else corpus


def guess_kind(files):
    """Returns one of `KINDS`, from the number of the files and their endings.

    Files that all end with .tsv or .tab are TSV; with .jsonl or .ndjson, JSON lines. Two files of
    which the first ends with .conllu are "conllu", two others parallel. One other file holds
    documents, one on a line. A ".gz" behind the ending makes no difference.

    >>> guess_kind(["pairs.tsv.gz"]), guess_kind(["train.de", "train.en"]), guess_kind(["all.txt"])
    ('tsv', 'parallel', 'line-documents')
    """
    if files and is_conllu_file(files[0]):
        return "conllu"
    kinds = {_kind_of_ending(str(file)) for file in files}
    if len(kinds) == 1 and None not in kinds:
        return kinds.pop()
    if kinds == {None} and len(files) <= 2:
        return "parallel" if len(files) == 2 else "line-documents"
    raise UserError(
        f"{files[0]}: cannot guess what these {len(files)} files hold. Say it with `kind`: "
        f"{', '.join(KINDS)}."
    )


def _require_no_table(kind, files):
    """Raises if what looks by its name like documents looks by its lines like something else."""
    if kind != "line-documents":
        return
    lines = [line for (line,) in itertools.islice(LineDocuments(files, DOCUMENT_RULES), 20)]
    tabs = {line.count("\t") for line in lines}
    other = None
    if len(tabs) == 1 and tabs != {0}:
        other = "tsv"
    elif lines and all(line.startswith("{") and line.rstrip().endswith("}") for line in lines):
        other = "json-lines"
    if other:
        raise UserError(
            f"{files[0]}: looks like {other}, but its ending does not say so. Say it with `kind`: "
            f"{other}, or line-documents if each line is a document."
        )


def _kind_of_ending(file):
    name = file.lower().removesuffix(".gz")
    return next((kind for end, kind in _KIND_OF_ENDING.items() if name.endswith(end)), None)


def _require_fitting_names(kind, columns, has_header, keys):
    if kind != "tsv" and (columns or has_header):
        raise UserError(f"`columns` and `has_header` are for TSV files; these are {kind}.")
    if kind != "json-lines" and keys:
        raise UserError(f"`keys` is for JSON lines; these files are {kind}.")
    try:
        find_column_set(tuple(columns or keys or ("text",)))
    except ValueError as error:
        name = "columns" if columns else "keys"
        raise UserError(f"`{name}`: {error}") from error


def _open_pair(kind, files, rules):
    if len(files) != 2:
        found = ", ".join(find_files("files", files)[:3])
        kinds = {"parallel": "Parallel files", "conllu": "Files with parsed sources"}
        raise UserError(
            f"{kinds[kind]} are two, a source and a target; got {len(files)} ({found}). For "
            "several on each side give two patterns in quotes, such as 'train.*.de' 'train.*.en'."
        )
    corpus = {"parallel": ParallelCorpus, "conllu": ConlluCorpus}[kind]
    return corpus(*files, rules=rules)
