"""From the lines of a corpus to a tokenizer."""

import contextlib
import inspect
import warnings

from keras_transformer.checks import require_choice, require_integer, require_positive_integer
from keras_transformer.errors import UserError
from keras_transformer.text.learning_progress import learning_progress
from keras_transformer.text.passages import sample_passages
from keras_transformer.text.special_ids import FIRST_PIECE_ID
from keras_transformer.text.tokenizer import tokenizer_class


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
