"""Learning of a tokenizer from the lines of a corpus."""

import contextlib
import inspect
import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from keras_transformer._utils.checks import (
    require_choice,
    require_integer,
    require_positive_integer,
)
from keras_transformer._utils.console import is_plain
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.text.registry import tokenizer_class
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.tokenizer import Report, Tokenizer

#: Maximum characters of a passage, so that a limit on passages is also a limit on memory.
LONGEST_PASSAGE = 250
_REPORT_EVERY = 10_000


def learn_tokenizer(
    name: str,
    lines: Iterable[str],
    vocabulary_size: int,
    *,
    maximum_passages: int = 200_000,
    special_ids: SpecialIds | None = None,
    progress: Report | None = None,
    **options: Any,
) -> Tokenizer:
    """Learns a vocabulary from text and returns a tokenizer with it.

    The same lines and arguments give the same tokenizer, byte for byte, on any number of cores.
    Nothing is written to disk; use `Tokenizer.save`. If the text has too few pieces, the vocabulary
    is smaller than requested, and a warning gives its size.

    >>> lines = ["a rose is a rose is a rose"] * 3
    >>> tokenizer = learn_tokenizer("bytes", lines, 260, progress=lambda *_: None)
    >>> tokenizer.tokenize(lines).shape
    TensorShape([3, None])

    Args:
        name: Registered name of the kind: `"sentencepiece"`, `"wordpiece"` or `"bytes"`.
        lines: Read once. For a vocabulary that source and target share, the lines of both.
        vocabulary_size: Wanted number of ids, special ids included.
        maximum_passages: A larger corpus is sampled down to this number of passages; a passage is a
            line, or a part of a line of more than 250 characters. A unigram model needs about 25
            bytes of memory for each character of the passages.
        special_ids: Special ids of the tokenizer. Defaults to `SpecialIds()`.
        progress: Function `progress(stage, done, total)`; `total` is None if it is unknown. By
            default a progress bar on a terminal, and a plain line elsewhere.
        **options: Options of the kind: `model` for `"sentencepiece"`, `lowercase` for
            `"wordpiece"`.
    """
    special_ids = special_ids or SpecialIds()
    limits = {"maximum_passages": maximum_passages, "special_ids": special_ids}
    fixed_size = check_learning(name, vocabulary_size, **limits, **options)
    if isinstance(lines, str | bytes):
        raise ArgumentError("lines", "many strings, such as a list or an open file", lines[:40])
    title = f"Learning a {name} vocabulary of {vocabulary_size}"
    context = learning_progress(title) if progress is None else contextlib.nullcontext(progress)
    with context as report:
        passages = []
        if fixed_size is None:
            passages = sample_passages(lines, maximum_passages, report)
            if not passages:
                raise UserError("There is nothing to learn a vocabulary from: no line has text.")
        kind = tokenizer_class(name)
        tokenizer = kind.learn(passages, vocabulary_size, special_ids, report, **options)
    if (size := tokenizer.vocabulary_size) < vocabulary_size:
        problem = f"The {name} vocabulary has {size} ids, fewer than the {vocabulary_size}"
        fix = f"this text has no more pieces. Learn from more text, or request {size}."
        warnings.warn(f"{problem} requested: {fix}", stacklevel=2)
    return tokenizer


def check_learning(
    name: str,
    vocabulary_size: int,
    *,
    maximum_passages: int = 200_000,
    special_ids: SpecialIds | None = None,
    **options: Any,
) -> int | None:
    """Checks the arguments of `learn_tokenizer` without reading text or creating tensors.

    It returns the vocabulary size if the kind has a fixed one, else None.

    >>> check_learning("bytes", 260)
    260

    Args:
        name: Registered name of the kind.
        vocabulary_size: Wanted number of ids, special ids included.
        maximum_passages: Maximum number of passages.
        special_ids: Special ids of the tokenizer. Defaults to `SpecialIds()`.
        **options: Options of the kind.
    """
    kind = tokenizer_class(name)
    special_ids = special_ids or SpecialIds()
    require_integer("vocabulary_size", vocabulary_size, minimum=len(special_ids.ids) + 1)
    require_positive_integer("maximum_passages", maximum_passages)
    parameters = set(inspect.signature(kind.learn).parameters)
    known = parameters - set(inspect.signature(Tokenizer.learn).parameters)
    for option in options:
        if not known:
            raise UserError(f"A {name!r} tokenizer has no options; got {option!r}.")
        require_choice("option", option, known)
    return kind.check_learning(vocabulary_size, special_ids, **options)


def sample_passages(lines: Iterable[str], maximum: int, report: Report) -> list[str]:
    """Returns at most `maximum` passages of `lines`, which are read once; blank ones are left out.

    If there are more, each has the same chance of being selected (reservoir sampling: Vitter 1985,
    algorithm R), and the same lines always give the same sample.

    >>> sample_passages(["a line", "", "another"], 10, lambda *_: None)
    ['a line', 'another']
    """
    generator = random.Random(0)
    sample: list[str] = []
    seen = 0
    line_count = 0
    for line_count, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise UserError(f"`lines` must give strings; line {line_count} is {line!r}.")
        for passage in split_line(line.rstrip("\r\n")):
            seen += 1
            if len(sample) < maximum:
                sample.append(passage)
            elif (place := generator.randrange(seen)) < maximum:
                sample[place] = passage
        if line_count % _REPORT_EVERY == 0:
            report("Reading lines", line_count, None)
    report("Reading lines", line_count, line_count)
    return sample


def split_line(line: str) -> Iterator[str]:
    """Yields parts of `line` of at most 250 characters, split between words where possible.

    >>> [len(part) for part in split_line("word " * 100)]
    [249, 250]
    """
    start = 0
    while start < len(line):
        end = start + LONGEST_PASSAGE
        following = end
        if end < len(line) and (space := line.rfind(" ", start + 1, end)) > 0:
            end, following = space, space + 1
        passage = line[start:end]
        if not passage.isspace():
            yield passage
        start = following


@contextlib.contextmanager
def learning_progress(title: str) -> Iterator[Report]:
    """Yields a callback `report(stage, done, total)` that shows progress on standard error.

    A terminal shows a progress bar, which is erased at the end; a file or pipe gets the title only.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    plain = is_plain(console)
    if plain:
        print(title, file=sys.stderr, flush=True)
    texts = TextColumn("{task.description}"), TextColumn("{task.completed:,}")
    columns = (SpinnerColumn(), texts[0], BarColumn(), texts[1], TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=plain) as bar:
        task = bar.add_task(title, total=None)
        yield lambda stage, done, total: bar.update(
            task, description=f"{title}: {stage}", completed=done, total=total
        )
