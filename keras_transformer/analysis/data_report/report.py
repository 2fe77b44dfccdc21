"""What a person wants to know about a corpus before training on it, gathered in one dictionary."""

import dataclasses
import time

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report.features import describe_lines
from keras_transformer.analysis.data_report.statistics import (
    describe_lengths,
    describe_padding,
    describe_vocabularies,
    find_tokenizers,
)
from keras_transformer.data.corpora.corpus_report import count_overlap
from keras_transformer.data.tokenization import tokenize_corpus

FORMAT = "keras_transformer data report"
#: Raised when a key changes its meaning or goes away; new keys may come at any time.
VERSION = 1


def make_data_report(
    corpus,
    cache_directory,
    *,
    validation=None,
    tokenizer="sentencepiece",
    vocabulary_size=None,
    tokens=4096,
    max_length=256,
    progress=None,
):
    """Reads a corpus and returns a report about it, in JSON's types.

    Everything is streamed. What looks at single characters does so in 200,000 examples at most,
    spread evenly; the report's `lines.sample` says how many.

    | key | what it holds |
    |---|---|
    | `format`, `version`, `package_version` | what this is |
    | `files`, `validation_files`, `columns` | what was read |
    | `settings` | the arguments |
    | `corpus`, `validation` | the `CorpusReport` of each; `validation` is None if there is none |
    | `overlap` | how many validation examples are in the training corpus; None without any |
    | `lengths` | see `describe_lengths` |
    | `lines` | see `describe_lines` |
    | `vocabularies` | see `describe_vocabularies` |
    | `padding` | see `describe_padding` |
    | `tokenizing` | `seconds` and `sentences_per_second`; None if the cache was there already |
    | `warnings` | sentences |

    Args:
        corpus: the training `Corpus`.
        cache_directory: where the tokenized corpus is kept, see `tokenize_corpus`.
        validation: the validation `Corpus`, if there is one.
        tokenizer: the kind of vocabulary to learn, `"sentencepiece"`, `"wordpiece"` or `"bytes"`,
            or the directory of a saved tokenizer.
        vocabulary_size: the number of ids to learn, 8,000 by default.
        tokens: the budget of a batch, see `choose_buckets`.
        max_length: the longest sequence, see `choose_buckets`.
        progress: a function that is called with the name of each stage.

    Raises:
        UserError: at the first thing that is wrong with the files or the arguments.

    Example:

    >>> import tempfile
    >>> from keras_transformer.data import MemoryCorpus
    >>> corpus = MemoryCorpus([("ja", "yes"), ("nein", "no"), ("ja", "yes")])
    >>> report = make_data_report(corpus, tempfile.mkdtemp(), tokenizer="bytes")
    >>> report["corpus"]["examples"], report["corpus"]["duplicates"]
    (3, 1)
    """
    progress = progress or (lambda stage: None)
    progress(f"Reading {corpus.name}")
    checked = corpus.check()
    messages = list(checked.warnings)
    checked_validation = overlap = None
    if validation is not None:
        if validation.columns != corpus.columns:
            raise UserError(
                f"{validation.name}: has the columns {', '.join(validation.columns)}, but the "
                f"training corpus has {', '.join(corpus.columns)}. Give files of the same kind."
            )
        progress(f"Reading {validation.name}")
        checked_validation = validation.check()
        overlap = count_overlap(corpus, validation)
        messages += validation_warnings(checked_validation, overlap)
    tokenizers, asked_size, learning_messages = find_tokenizers(corpus, tokenizer, vocabulary_size)
    messages += learning_messages
    progress("Tokenizing")
    cache, tokenizing = _tokenize(corpus, tokenizers, cache_directory)
    validation_cache = None
    if validation is not None:
        validation_cache = tokenize_corpus(validation, tokenizers, cache_directory)
    progress("Trying bucket settings")
    padding = describe_padding(cache, tokens, max_length)
    messages += _too_long_warnings(padding["default"], max_length)
    progress("Looking for odd lines")
    text_tokenizers = {name: tokenizers[name] for name in cache.sequence_columns}
    return {
        "format": FORMAT,
        "version": VERSION,
        "package_version": __version__,
        "files": _files(corpus),
        "validation_files": None if validation is None else _files(validation),
        "columns": list(corpus.columns),
        "settings": {
            "tokenizer": str(tokenizer),
            "vocabulary_size": asked_size,
            "tokens": tokens,
            "max_length": max_length,
        },
        "corpus": _as_dictionary(checked),
        "validation": checked_validation and _as_dictionary(checked_validation),
        "overlap": overlap,
        "lengths": describe_lengths(cache),
        "lines": describe_lines(corpus, cache),
        "vocabularies": describe_vocabularies(cache, text_tokenizers, asked_size, validation_cache),
        "padding": padding,
        "tokenizing": tokenizing,
        "warnings": messages,
    }


def _tokenize(corpus, tokenizers, directory):
    """Returns the cache, and how fast it was built; None if it was there already."""
    built = []
    begin = time.perf_counter()
    cache = tokenize_corpus(corpus, tokenizers, directory, progress=built.append)
    seconds = time.perf_counter() - begin
    if not built:
        return cache, None
    sentences = len(cache) * len(cache.sequence_columns)
    return cache, {"seconds": seconds, "sentences_per_second": sentences / seconds}


def _files(corpus):
    return [str(file) for file in getattr(corpus, "files", [corpus.name])]


def _as_dictionary(checked):
    content = dataclasses.asdict(checked)
    del content["warnings"]  # they are in the report's own
    return content


def validation_warnings(checked, overlap):
    for message in checked.warnings:
        yield f"Validation: {message}"
    if overlap:
        yield (
            f"{overlap:,} of {checked.examples:,} validation examples are in the training corpus, "
            "word for word. They measure memory, not learning: take them out of one of the two."
        )


def _too_long_warnings(default, max_length):
    if default["skipped"]:
        yield (
            f"{default['skipped']:,} examples have more than {max_length:,} tokens with END and "
            "are left out of the batches. Split them, or raise `max_length`."
        )
    if default["truncated"]:
        yield (
            f"{default['truncated']:,} examples have more than {max_length:,} tokens with END and "
            "are cut in the batches. Pack them, split them, or raise `max_length`."
        )
