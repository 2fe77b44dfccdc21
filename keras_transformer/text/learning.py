"""From the lines of a corpus to a tokenizer."""

import contextlib
import inspect
import random
import sys
import warnings

from keras_transformer._utils.checks import (
    require_choice,
    require_integer,
    require_positive_integer,
)
from keras_transformer._utils.errors import UserError
from keras_transformer.text.tokenizer import FIRST_PIECE_ID, tokenizer_class

# Long documents are cut here, so that a bound on the passages is also a bound on memory.
LONGEST_PASSAGE = 250
REPORT_EVERY = 10_000


def sample_passages(lines, maximum, report):
    """Returns at most `maximum` passages of `lines`, which are read once.

    A passage is a line, or a part of a line of more than 250 characters. Blank ones are left
    out. When there are more than `maximum`, each has the same chance to be taken (reservoir
    sampling: Vitter 1985, algorithm R), and the same lines always give the same sample.

    >>> sample_passages(["a line", "", "another"], 10, lambda *_: None)
    ['a line', 'another']

    Args:
        lines: An iterable of strings.
        maximum: The most passages to return.
        report: A callable `report(stage, done, total)`.
    """
    generator = random.Random(0)
    sample = []
    seen = 0
    line_count = 0
    for line_count, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise UserError(f"`lines` must give strings; line {line_count} is {line!r}.")
        for passage in cut_line(line.rstrip("\r\n")):
            seen += 1
            if len(sample) < maximum:
                sample.append(passage)
            elif (place := generator.randrange(seen)) < maximum:
                sample[place] = passage
        if line_count % REPORT_EVERY == 0:
            report("Reading lines", line_count, None)
    report("Reading lines", line_count, line_count)
    return sample


def cut_line(line):
    """Yields the parts of `line`: at most 250 characters, cut between words where possible.

    >>> [len(part) for part in cut_line("word " * 100)]
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
def learning_progress(title):
    """Yields a callable `report(stage, done, total)` that shows how far the learning is.

    It writes to standard error. On a terminal a line moves, and vanishes at the end. Elsewhere (a
    file, a pipe, a dumb terminal) there is one plain line, `title`.

    Args:
        title: What is being done, e.g. "Learning a sentencepiece vocabulary of 8000".
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        print(title, file=sys.stderr, flush=True)
        yield lambda stage, done, total: None
        return

    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(stage, done, total):
            bar.update(task, description=f"{title}: {stage}", completed=done, total=total)

        yield report


def learn_tokenizer(
    name, lines, vocabulary_size, *, maximum_passages=200_000, progress=None, **options
):
    """Learns a vocabulary from text and returns a tokenizer that has it.

    The same lines and arguments give the same tokenizer, byte for byte, on any number of cores.
    Nothing is written: see `Tokenizer.save`. When the text has no more pieces to give, the
    vocabulary is smaller than asked, and a warning says how large it is.

    >>> lines = ["a rose is a rose is a rose"] * 3
    >>> tokenizer = learn_tokenizer("bytes", lines, 260, progress=lambda *_: None)
    >>> tokenizer.tokenize(lines).shape
    TensorShape([3, None])

    Args:
        name: The registered name of the kind: `"sentencepiece"`, `"wordpiece"` or `"bytes"`.
        lines: An iterable of strings, read once. For a vocabulary that source and target share, the
            lines of both.
        vocabulary_size: The number of ids wanted, the four special ones included.
        maximum_passages: A larger corpus is sampled down to so many lines, or parts of lines where
            they have more than 250 characters. A unigram model needs about 25 bytes of memory for
            each of their characters.
        progress: A callable `progress(stage, done, total)`; `total` is None where nobody knows it.
            By default a moving line on a terminal, and one plain line elsewhere.
        **options: What this kind lets one choose; see its class.
    """
    kind = tokenizer_class(name)
    require_integer("vocabulary_size", vocabulary_size, minimum=FIRST_PIECE_ID + 1)
    require_positive_integer("maximum_passages", maximum_passages)
    _require_options(kind, options)
    if isinstance(lines, str | bytes):
        raise UserError(
            "`lines` must be many strings, for example a list or an open file; got a single one, "
            f"{lines[:40]!r}."
        )
    title = f"Learning a {name} vocabulary of {vocabulary_size}"
    shown = learning_progress(title) if progress is None else contextlib.nullcontext(progress)
    with shown as report:

        def read_passages():
            passages = sample_passages(lines, maximum_passages, report)
            if not passages:
                raise UserError(
                    "There is nothing to learn a vocabulary from: no line has any text."
                )
            return passages

        tokenizer = kind.learn(read_passages, vocabulary_size, report, **options)
    if tokenizer.vocabulary_size < vocabulary_size:
        warnings.warn(
            f"The {name} vocabulary has {tokenizer.vocabulary_size} ids, fewer than the "
            f"{vocabulary_size} asked for: there is no more to learn from this text. Learn from "
            f"more text, or ask for {tokenizer.vocabulary_size}.",
            stacklevel=2,
        )
    return tokenizer


def _require_options(kind, options):
    parameters = inspect.signature(kind.learn).parameters
    known = set(parameters) - {"read_passages", "vocabulary_size", "report"}
    for option in options:
        if not known:
            raise UserError(f"A {kind.registered_name!r} tokenizer has no options; got {option!r}.")
        require_choice("option", option, known)
