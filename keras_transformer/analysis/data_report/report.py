"""The data report: made from a corpus, as one dictionary in JSON's types, and saved."""

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.types import Path
from keras_transformer.analysis.data_report.odd_lines import describe_lines
from keras_transformer.analysis.data_report.rendering import draw_data_report
from keras_transformer.analysis.data_report.statistics import (
    describe_lengths,
    describe_padding,
    describe_vocabularies,
    find_tokenizers,
)
from keras_transformer.data.corpora.corpus import Corpus
from keras_transformer.data.corpora.corpus_report import (
    CorpusReport,
    count_overlaps,
    evaluation_warnings,
)
from keras_transformer.data.tokenization import tokenize_corpus

FORMAT = "keras_transformer data report"
#: Increased when the meaning of a key changes or a key is removed; keys may be added at any time.
VERSION = 2

JSON_NAME = "report.json"
PICTURE_NAME = "report.png"


def make_data_report(
    corpus: Corpus,
    cache_directory: Path,
    *,
    validation: Corpus | None = None,
    tokenizer: str = "sentencepiece",
    vocabulary_size: int | None = None,
    tokens: int = 4096,
    max_length: int = 256,
    progress: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Reads a corpus and returns a report about it, in JSON's types.

    Everything is streamed. Statistics of characters are made from at most 200,000 examples, spread
    evenly; `lines.sample` in the report has their number.

    | key | content |
    |---|---|
    | `format`, `version`, `package_version` | kind and version of the report |
    | `files`, `validation_files`, `columns` | the corpora that were read |
    | `settings` | the arguments |
    | `corpus`, `validation` | the `CorpusReport` of each; `validation` is None without one |
    | `overlap` | number of validation examples that are in the training corpus too, or None |
    | `lengths` | see `describe_lengths` |
    | `lines` | see `describe_lines` |
    | `vocabularies` | see `describe_vocabularies` |
    | `padding` | see `describe_padding` |
    | `tokenizing` | `seconds` and `sentences_per_second`; None if the cache existed already |
    | `warnings` | sentences |

    Args:
        corpus: The training corpus.
        cache_directory: Directory for the tokenized corpus; see `tokenize_corpus`.
        validation: The validation corpus. Default: none.
        tokenizer: "sentencepiece", "wordpiece", "bytes", or the directory of a saved tokenizer.
        vocabulary_size: Number of ids to learn. Default 8,000.
        tokens: Maximum number of tokens per batch; see `choose_buckets`.
        max_length: Maximum length of a sequence; see `choose_buckets`.
        progress: Function that is called with the name of each stage.

    ```python
    report = make_data_report(open_corpus(["pairs.tsv"]), "cache", tokenizer="bytes")
    print(report["corpus"]["duplicates"])
    ```
    """
    progress = progress or (lambda stage: None)
    progress(f"Reading {corpus.name}")
    checked = corpus.check()
    messages = list(checked.warnings)
    checked_validation = overlap = validation_cache = None
    if validation is not None:
        if validation.columns != corpus.columns:
            names = ", ".join(validation.columns), ", ".join(corpus.columns)
            problem = f"has the columns {names[0]}, but the training corpus has {names[1]}."
            raise UserError(problem, where=validation.name, fix="Give files of the same kind.")
        progress(f"Reading {validation.name}")
        checked_validation = validation.check()
        overlap = count_overlaps(corpus, {"validation": validation})["validation"]
        messages += evaluation_warnings("validation", checked_validation, overlap)
    tokenizers, size, learning_messages = find_tokenizers(corpus, tokenizer, vocabulary_size)
    messages += learning_messages
    progress("Tokenizing")
    built: list[int] = []  # stays empty if the cache exists already
    begin = time.perf_counter()
    cache = tokenize_corpus(corpus, tokenizers, cache_directory, progress=built.append)
    seconds = time.perf_counter() - begin
    sentences = len(cache) * len(cache.sequence_columns)
    tokenizing = {"seconds": seconds, "sentences_per_second": sentences / seconds}
    if validation is not None:
        validation_cache = tokenize_corpus(validation, tokenizers, cache_directory)
    progress("Comparing bucket settings")
    padding = describe_padding(cache, tokens, max_length)
    messages += _length_warnings(padding["default"], max_length)
    progress("Searching for odd lines")
    return {
        "format": FORMAT,
        "version": VERSION,
        "package_version": __version__,
        "files": _files(corpus),
        "validation_files": None if validation is None else _files(validation),
        "columns": list(corpus.columns),
        "settings": {
            "tokenizer": str(tokenizer),
            "vocabulary_size": size,
            "tokens": tokens,
            "max_length": max_length,
        },
        "corpus": _as_dictionary(checked),
        "validation": checked_validation and _as_dictionary(checked_validation),
        "overlap": overlap,
        "lengths": describe_lengths(cache),
        "lines": describe_lines(corpus, cache),
        "vocabularies": describe_vocabularies(cache, tokenizers, size, validation_cache),
        "padding": padding,
        "tokenizing": tokenizing if built else None,
        "warnings": messages,
    }


def _files(corpus: Corpus) -> list[str]:
    return [str(file) for file in getattr(corpus, "files", [corpus.name])]


def _as_dictionary(checked: CorpusReport) -> dict[str, Any]:
    content = dataclasses.asdict(checked)
    del content["warnings"]  # they are among the warnings of the data report
    return content


def _length_warnings(default: Mapping[str, Any], max_length: int) -> Iterator[str]:
    long = f"examples are longer than {max_length:,} tokens with the end token and are"
    if default["skipped"]:
        fix = "Split them, or raise `max_length`."
        yield f"{default['skipped']:,} {long} left out of the batches. {fix}"
    if default["truncated"]:
        fix = "Pack them, split them, or raise `max_length`."
        yield f"{default['truncated']:,} {long} truncated in the batches. {fix}"


def require_report_directory(output: Path) -> pathlib.Path:
    """Returns the path of a directory, which may not exist yet, if a report can be written there.

    An earlier report may be replaced, but no other files of the same names.
    """
    directory = pathlib.Path(os.path.abspath(output))
    nearest = next(path for path in [directory, *directory.parents] if os.path.lexists(path))
    if not nearest.is_dir():
        raise _not_writable(directory, f"{nearest} is not a directory")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _not_writable(directory, f"{nearest}: permission denied")
    existing = [name for name in (JSON_NAME, PICTURE_NAME) if os.path.lexists(directory / name)]
    if existing and not _is_report(directory / JSON_NAME):
        problem = "exists and does not belong to a data report."
        fix = "Name another directory with `output`, or move the file."
        raise UserError(problem, where=directory / existing[0], fix=fix)
    return directory


def save_data_report(report: Mapping[str, Any], output: Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.json and report.png into a directory and returns their paths.

    Args:
        report: Result of `make_data_report`.
        output: Path of the directory; see `require_report_directory`.
    """
    directory = require_report_directory(output)
    picture = draw_data_report(report)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(directory, str(error.strerror)) from error
    # One line per key is short and can still be searched with grep.
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in report.items())
    with atomic_file(directory / JSON_NAME) as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    with atomic_file(directory / PICTURE_NAME, "wb") as file:
        file.write(picture)
    return directory / JSON_NAME, directory / PICTURE_NAME


def _is_report(path: pathlib.Path) -> bool:
    try:
        return json.loads(path.read_bytes())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _not_writable(directory: pathlib.Path, reason: str) -> UserError:
    problem = f"the report cannot be written there ({reason})."
    return UserError(problem, where=directory, fix="Name another directory with `output`.")
