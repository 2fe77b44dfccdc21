"""Processing of lines by a text model, in windows: translation, continuation and scoring."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from keras_transformer._utils.checks import (
    require_integer,
    require_positive_integer,
    require_temperature,
)
from keras_transformer._utils.errors import ArgumentError, UserError

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_transformer.inference.text_methods import TextMethods

#: Default of the number of lines that the model gets at once.
WINDOW = 1024

# Number of lines of the first window.
_FIRST_LINES = 8
# More characters at once would take much memory and would not be faster.
_MAXIMUM_WINDOW_CHARACTERS = 1 << 22
# The signature takes a signed 32-bit seed.
_SEEDS = 2**31

#: Inputs of a signature by name: UTF-8 texts, or a number.
Inputs = Mapping[str, list[bytes] | int | float]

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True)
class Translation:
    """Translations, or continuations, of one line.

    Attributes:
        source: the line.
        texts: the texts, best first; at least one.
        scores: the length-normalized log-probability of each text.
    """

    source: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]

    @property
    def text(self) -> str:
        """The best text."""
        return self.texts[0]


@dataclasses.dataclass(frozen=True)
class Score:
    """The log-probability of one or more texts; scores can be added.

    >>> total = Score(-2.0, 4) + Score(-1.0, 2)
    >>> total, round(total.perplexity, 4)
    (Score(log_probability=-3.0, tokens=6), 1.6487)

    Attributes:
        log_probability: natural logarithm of the probability of all tokens.
        tokens: number of tokens, the end token of each text included.
    """

    log_probability: float
    tokens: int

    def __add__(self, other: Self) -> "Score":
        return Score(self.log_probability + other.log_probability, self.tokens + other.tokens)

    @property
    def perplexity(self) -> float:
        """exp of minus the mean log-probability of a token; NaN if there is no token."""
        if not self.tokens:
            return math.nan
        try:
            return math.exp(-self.log_probability / self.tokens)
        except OverflowError:
            return math.inf


def translate_lines(
    text_model: "TextMethods",
    lines: Iterable[str],
    n_best: int = 1,
    temperature: float | None = None,
    seed: int = 0,
    window: int = WINDOW,
) -> Iterator[Translation]:
    """Yields a `Translation` for each line, in order, as soon as it is available.

    The first results come after a few lines. When `lines` is a `LineReader` of a terminal or a
    pipe, a line is answered before the next one is read.

    Args:
        text_model: a `TextModel`, from `keras_transformer.load`.
        lines: the texts.
        n_best: maximum number of different texts for each line. Default 1.
        temperature: samples at this temperature, from 0.0001 to 10,000, instead of searching; 0
            takes the most likely token at each step. Default None.
        seed: seed of the samples, below 2**31. The same lines, seed, temperature and window give
            the same texts. Default 0.
        window: number of lines that the model gets at once: at most, or with a `temperature`
            exactly. Default 1024.

    Raises:
        UserError: if the model writes no text, or finds fewer than `n_best` texts for a line.
    """
    text_model.require("generate")
    n_best = require_positive_integer("n_best", n_best)
    window = require_positive_integer("window", window)
    if temperature is not None:
        if n_best > 1:
            raise ArgumentError("n_best", "1 with a `temperature`, which samples one text", n_best)
        seed = require_sampling_seed("seed", seed)
        temperature = require_temperature("temperature", temperature)
    return _translate(text_model, lines, n_best, temperature, seed, window)


def require_sampling_seed(name: str, value: int) -> int:
    """Returns `value` if it can be the seed of the signature `sample`."""
    if require_integer(name, value, minimum=0) >= _SEEDS:
        raise ArgumentError(name, "below 2**31", value)
    return value


def as_tensor(texts: Sequence[str]) -> "tf.Tensor":
    """Returns strings as the tensor `[B]` that signatures take, also for no strings."""
    import tensorflow as tf

    return tf.constant(_encoded(texts), tf.string, [len(texts)])


def _encoded(texts: Sequence[str]) -> list[bytes]:
    """Returns strings in UTF-8."""
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        problem = f"A text has the lone surrogate U+{code:04X}, which is not a character."
        raise UserError(problem, fix="Give text that can be encoded in UTF-8.") from error


def call_signature(
    text_model: "TextMethods", name: str, rows: int, **inputs: Sequence[str] | int | float
) -> dict[str, np.ndarray]:
    """Returns the outputs of a signature by name; each must have one row for each input row.

    Otherwise results would be assigned to the wrong texts.

    Args:
        text_model: a `TextModel`, or another object with `TextMethods`.
        name: name of the signature.
        rows: number of rows of each input.
        **inputs: the inputs by name: texts, or a number.
    """
    if name not in text_model.signature_names:
        raise UserError(
            f"the export has no signature {name!r}; it has "
            f"{', '.join(text_model.signature_names)}.",
            where=text_model.name,
            fix="Export the model again, without `signatures`.",
        )
    encoded: Inputs = {
        key: value if isinstance(value, int | float) else _encoded(value)
        for key, value in inputs.items()
    }
    arrays = text_model.compute(name, encoded)
    for key, array in arrays.items():
        if array.shape[:1] != (rows,):
            raise UserError(
                f"the signature {name!r} must give one row of {key!r} for each text; got the shape "
                f"{list(array.shape)} for {rows} texts.",
                where=text_model.name,
                fix="Export the model again, or give another one.",
            )
    return arrays


def as_text(content: bytes) -> str:
    """Returns the string of UTF-8 bytes; a model of bytes may write invalid UTF-8."""
    return content.decode("utf-8", "replace")


def _translate(
    text_model: "TextMethods",
    lines: Iterable[str],
    n_best: int,
    temperature: float | None,
    seed: int,
    window: int,
) -> Iterator[Translation]:
    is_sampling = temperature is not None
    name = "sample" if is_sampling else "serving_default" if n_best == 1 else "n_best"
    line_number = 0
    for sources in in_windows(lines, window, is_growing=not is_sampling):
        inputs: dict[str, Any] = {"text": sources}
        if temperature is not None:
            # Each window has another seed; otherwise equal lines of two windows would get equal
            # texts.
            inputs["temperature"] = float(temperature)
            inputs["seed"] = (seed + line_number) % _SEEDS
        line_number += len(sources)
        found = call_signature(text_model, name, len(sources), **inputs)
        # One text for each line, [B], becomes a list of one text, [B, 1].
        texts, scores = (
            found[key].reshape(len(sources), -1)[:, :n_best] for key in ("text", "score")
        )
        if texts.shape[1] < n_best:
            raise ArgumentError(
                "n_best",
                f"at most {texts.shape[1]}, the number of beams of the search",
                n_best,
                where=text_model.name,
                fix="Search with more beams. The beams of an export are set when it is written.",
            )
        yield from map(_make_translation, sources, texts, scores)


def _make_translation(source: str, texts: np.ndarray, scores: np.ndarray) -> Translation:
    # Several hypotheses may spell the same text; the first of them has the best score. A missing
    # hypothesis has the score minus infinity.
    found: dict[str, float] = {}
    for text, score in zip(map(as_text, texts), map(float, scores), strict=True):
        if score > -math.inf or not found:
            found.setdefault(text, score)
    return Translation(source, tuple(found), tuple(found.values()))


def score_pairs(
    text_model: "TextMethods", sources: Iterable[str], targets: Iterable[str], window: int = WINDOW
) -> Iterator[Score]:
    """Yields the `Score` of each target, given its source, in order, as soon as it is available.

    Args:
        text_model: a `TextModel`, from `keras_transformer.load`.
        sources: the source texts; for a language model the beginnings, which may be empty.
        targets: as many target texts.
        window: maximum number of pairs that the model gets at once. Default 1024.

    Example:

    ```python
    model = keras_transformer.load("saved_models/dates")
    total = sum(score_pairs(model, ["12. Mai 2021"], ["2021-05-12"]), Score(0.0, 0))
    print(total.perplexity)
    ```
    """
    text_model.require("score")
    window = require_positive_integer("window", window)

    def score() -> Iterator[Score]:
        pairs = _pairs(sources, targets)
        for rows in in_windows(pairs, window, characters=lambda pair: sum(map(len, pair))):
            source, target = zip(*rows, strict=True)
            found = call_signature(text_model, "score", len(rows), source=source, target=target)
            parts = (found[name].tolist() for name in ("log_probability", "tokens"))
            yield from map(Score, *parts)

    return score()


def _pairs(sources: Iterable[str], targets: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets)):
        if source is None or target is None:
            names = ("sources", "targets")
            shorter, longer = names if source is None else names[::-1]
            raise UserError(
                f"There must be as many sources as targets; the {shorter} end after {number:,}, "
                f"but there are more {longer}."
            )
        yield source, target


def in_windows(
    lines: Iterable[_Item],
    largest: int,
    is_growing: bool = True,
    characters: Callable[[Any], int] = len,
) -> Iterator[list[_Item]]:
    """Yields lists of consecutive lines, to be processed at once.

    The first lists are short, so that the first result is available soon. Then they grow, because
    the model is fastest with many lines, which it sorts by length. A list ends early if its lines
    are very long, or if the next line is not available yet.

    Args:
        lines: the lines. If there is a method `must_wait`, as of a `LineReader`, it returns whether
            the next line is not available yet.
        largest: maximum number of lines of a list.
        is_growing: False if all lists but the last must have `largest` lines. Default True.
        characters: function that returns the length of a line. Default `len`.

    Example:

    >>> [len(window) for window in in_windows("a" * 100, largest=32)]
    [8, 16, 32, 32, 12]
    """
    size = min(_FIRST_LINES, largest) if is_growing else largest
    must_wait = getattr(lines, "must_wait", None) if is_growing else None
    window: list[_Item] = []
    length = 0
    for line in lines:
        window.append(line)
        length += characters(line)
        is_full = len(window) == size or length >= _MAXIMUM_WINDOW_CHARACTERS
        if is_full or (must_wait is not None and must_wait()):
            yield window
            window, length = [], 0
            size = min(2 * size, largest) if is_full else size
    if window:
        yield window
