"""Log-probabilities and perplexities of given texts."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.inference.readers import in_windows
from keras_transformer.inference.translation import WINDOW, as_tensor

if TYPE_CHECKING:
    from keras_transformer.inference.text_model import TextModel


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


def score_pairs(
    text_model: "TextModel",
    sources: Iterable[str],
    targets: Iterable[str],
    window: int = WINDOW,
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
    scores = list(score_pairs(model, ["12. Mai 2021"], ["2021-05-12"]))
    total = sum(scores, Score(0.0, 0))
    print(total.perplexity)
    ```
    """
    text_model.require("score")
    window = require_positive_integer("window", window)
    return _score(text_model, _pairs(sources, targets), window)


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


def _score(
    text_model: "TextModel", pairs: Iterable[tuple[str, str]], window: int
) -> Iterator[Score]:
    for rows in in_windows(pairs, window, characters=lambda pair: sum(map(len, pair))):
        sources, targets = zip(*rows, strict=True)
        found = text_model.signatures["score"](source=as_tensor(sources), target=as_tensor(targets))
        parts = (found[name].numpy().tolist() for name in ("log_probability", "tokens"))
        yield from itertools.starmap(Score, zip(*parts, strict=True))
