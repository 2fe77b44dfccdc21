"""Lines through a text model: translated by a Transformer, continued by a language model."""

import dataclasses
import math

import tensorflow as tf

from keras_transformer._utils.checks import (
    require_integer,
    require_not_negative,
    require_positive_integer,
)
from keras_transformer._utils.errors import UserError
from keras_transformer.inference.readers import in_windows

#: How many lines are given to the model at once, if the caller does not say.
WINDOW = 1024

# The signature takes a seed of 32 bits with a sign.
_SEEDS = 2**31


@dataclasses.dataclass(frozen=True)
class Translation:
    """What a model made of one line.

    Attributes:
        source: the line.
        texts: the translations, or continuations, best first; at least one.
        scores: of each text, its length-normalized log-probability.
    """

    source: str
    texts: tuple
    scores: tuple

    @property
    def text(self):
        """The best one."""
        return self.texts[0]


def translate_lines(text_model, lines, n_best=1, temperature=None, seed=0, window=WINDOW):
    """Yields a `Translation` for each line, in order, as soon as it is there.

    The first answers come after a few lines already, and when `lines` is a `LineReader` of a
    terminal or a pipe, no line waits for the next one to come.

    Args:
        text_model: A `TextModel`, from `open_text_model`.
        lines: An iterable of strings.
        n_best: How many different texts to give for each line; fewer if the model finds no more.
        temperature: None for the model's own search. Else the texts are drawn at random, at this
            temperature; 0 takes the likeliest token at each step.
        seed: Of the random draws, below 2**31. The same lines, seed, temperature and window give
            the same texts.
        window: How many lines the model is given at once, at most. With a `temperature` it is that
            many exactly.

    Raises:
        UserError: If the model gives no texts, or not as many as `n_best` for a line.
    """
    require_text_generator(text_model)
    n_best = require_positive_integer("n_best", n_best)
    window = require_positive_integer("window", window)
    if temperature is None:
        return _search(text_model, lines, n_best, window)
    if n_best > 1:
        raise UserError("`n_best` is for the model's search: it must be 1 with a `temperature`.")
    if require_integer("seed", seed, minimum=0) >= _SEEDS:
        raise ValueError(f"`seed` must be below 2**31; got {seed}.")
    temperature = require_not_negative("temperature", temperature)
    return _sample(text_model, lines, temperature, seed, window)


def require_text_generator(text_model):
    """Raises a `UserError` if the model takes texts but gives none."""
    if text_model.kind == "TextEncoder":
        raise UserError(
            f"{text_model.name}: is a TextEncoder, which gives no texts. Name a Transformer or a "
            "LanguageModel."
        )


def _search(text_model, lines, n_best, window):
    signature = text_model.signatures["serving_default" if n_best == 1 else "n_best"]
    for sources in in_windows(lines, window):
        found = signature(text=as_tensor(sources))
        texts, scores = found["text"].numpy(), found["score"].numpy()
        # One text for each line, [B], as a list of one: [B, 1].
        texts, scores = (part.reshape(len(sources), -1)[:, :n_best] for part in (texts, scores))
        if texts.shape[1] < n_best:
            raise UserError(
                f"{text_model.name}: gives {texts.shape[1]} texts for a line, not {n_best}: as "
                "many as its search has beams. Lower `n_best`, or raise `beams`, of an export when "
                "it is made."
            )
        for row in zip(sources, texts, scores, strict=True):
            yield _make_translation(*row)


def _sample(text_model, lines, temperature, seed, window):
    signature = text_model.signatures["sample"]
    line_number = 0
    for sources in in_windows(lines, window, is_growing=False):
        found = signature(
            text=as_tensor(sources),
            temperature=tf.constant(temperature, tf.float32),
            # Another one for each window, or equal lines of two windows would get equal texts.
            seed=tf.constant((seed + line_number) % _SEEDS, tf.int32),
        )
        line_number += len(sources)
        texts, scores = found["text"].numpy(), found["score"].numpy()
        for source, text, score in zip(sources, texts, scores, strict=True):
            yield _make_translation(source, [text], [score])


def as_tensor(texts):
    """Returns strings as the tensor [B] that signatures take; no strings at all, too."""
    return tf.constant([text.encode() for text in texts], tf.string, [len(texts)])


def as_text(content):
    """Returns the string of UTF-8 bytes; a model of bytes may also write what is no UTF-8."""
    return content.decode("utf-8", "replace")


def _make_translation(source, texts, scores):
    # The search finds ids. Those of several hypotheses may spell the same text, of which the first
    # has the best score; a place for which it found nothing has the score minus infinity.
    found = {}
    for text, score in zip(map(as_text, texts), map(float, scores), strict=True):
        if score > -math.inf or not found:
            found.setdefault(text, score)
    return Translation(source, tuple(found), tuple(found.values()))
