"""Lines through a text model: translated, or continued by a language model."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_integer,
    require_not_negative,
    require_positive_integer,
)
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.inference.readers import in_windows

if TYPE_CHECKING:
    from keras_transformer.inference.text_model import TextModel

#: Default of the number of lines that the model gets at once.
WINDOW = 1024

# The signature takes a signed 32-bit seed.
_SEEDS = 2**31


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


def translate_lines(
    text_model: "TextModel",
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
        n_best: number of different texts for each line; fewer if the model finds no more. Default
            1.
        temperature: None for the model's own search. Otherwise the texts are sampled at this
            temperature; 0 takes the most likely token at each step. Default None.
        seed: seed of the samples, below 2**31. The same lines, seed, temperature and window give
            the same texts. Default 0.
        window: maximum number of lines that the model gets at once; with a `temperature`, exactly
            that number. Default 1024.

    Raises:
        UserError: if the model writes no text, or finds fewer than `n_best` texts for a line.
    """
    text_model.require("generate")
    n_best = require_positive_integer("n_best", n_best)
    window = require_positive_integer("window", window)
    if temperature is None:
        return _search(text_model, lines, n_best, window)
    if n_best > 1:
        raise ArgumentError("n_best", "1 with a `temperature`, which samples one text", n_best)
    seed = require_sampling_seed("seed", seed)
    temperature = require_not_negative("temperature", temperature)
    return _sample(text_model, lines, temperature, seed, window)


def require_sampling_seed(name: str, value: int) -> int:
    """Returns `value` if it can be the seed of the signature `sample`."""
    if require_integer(name, value, minimum=0) >= _SEEDS:
        raise ArgumentError(name, "below 2**31", value)
    return value


def as_tensor(texts: Sequence[str]) -> tf.Tensor:
    """Returns strings as the tensor `[B]` that signatures take, also for no strings."""
    return tf.constant([text.encode() for text in texts], tf.string, [len(texts)])


def as_text(content: bytes) -> str:
    """Returns the string of UTF-8 bytes; a model of bytes may write invalid UTF-8."""
    return content.decode("utf-8", "replace")


def _search(
    text_model: "TextModel", lines: Iterable[str], n_best: int, window: int
) -> Iterator[Translation]:
    signature = text_model.signatures["serving_default" if n_best == 1 else "n_best"]
    for sources in in_windows(lines, window):
        found = signature(text=as_tensor(sources))
        texts, scores = found["text"].numpy(), found["score"].numpy()
        # One text for each line, [B], becomes a list of one text, [B, 1].
        texts, scores = (part.reshape(len(sources), -1)[:, :n_best] for part in (texts, scores))
        if texts.shape[1] < n_best:
            raise ArgumentError(
                "n_best",
                f"at most {texts.shape[1]}, the number of beams of the search",
                n_best,
                where=text_model.name,
                fix="Search with more beams. The beams of an export are set when it is written.",
            )
        for row in zip(sources, texts, scores, strict=True):
            yield _make_translation(*row)


def _sample(
    text_model: "TextModel", lines: Iterable[str], temperature: float, seed: int, window: int
) -> Iterator[Translation]:
    signature = text_model.signatures["sample"]
    line_number = 0
    for sources in in_windows(lines, window, is_growing=False):
        found = signature(
            text=as_tensor(sources),
            temperature=tf.constant(temperature, tf.float32),
            # Each window has another seed; otherwise equal lines of two windows would get equal
            # texts.
            seed=tf.constant((seed + line_number) % _SEEDS, tf.int32),
        )
        line_number += len(sources)
        texts, scores = found["text"].numpy(), found["score"].numpy()
        for source, text, score in zip(sources, texts, scores, strict=True):
            yield _make_translation(source, [text], [score])


def _make_translation(
    source: str, texts: Sequence[bytes] | np.ndarray, scores: Sequence[float] | np.ndarray
) -> Translation:
    # Several hypotheses may spell the same text; the first of them has the best score. A place for
    # which the search found nothing has the score minus infinity.
    found: dict[str, float] = {}
    for text, score in zip(map(as_text, texts), map(float, scores), strict=True):
        if score > -math.inf or not found:
            found.setdefault(text, score)
    return Translation(source, tuple(found), tuple(found.values()))
