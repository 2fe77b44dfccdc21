"""How likely a model finds given texts."""

import dataclasses
import itertools
import math

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.inference.readers import in_windows
from keras_transformer.inference.translation import WINDOW, as_tensor, require_text_generator


@dataclasses.dataclass(frozen=True)
class Score:
    """The log-probability of a text, or of several: scores can be added.

    >>> total = Score(-2.0, 4) + Score(-1.0, 2)
    >>> total, round(total.perplexity, 4)
    (Score(log_probability=-3.0, tokens=6), 1.6487)

    Attributes:
        log_probability: natural logarithm of the probability of all tokens.
        tokens: how many there are, the end of each text included.
    """

    log_probability: float
    tokens: int

    def __add__(self, other):
        return Score(self.log_probability + other.log_probability, self.tokens + other.tokens)

    @property
    def perplexity(self):
        """exp of minus the mean log-probability of a token; not a number if there is none."""
        if not self.tokens:
            return math.nan
        try:
            return math.exp(-self.log_probability / self.tokens)
        except OverflowError:
            return math.inf


def score_pairs(text_model, sources, targets, window=WINDOW):
    """Yields the `Score` of each target, given its source, in order, as soon as it is there.

    Args:
        text_model: A `TextModel`, from `open_text_model`.
        sources: An iterable of strings. For a language model they are the beginnings, which may be
            empty.
        targets: An iterable of as many strings.
        window: How many pairs the model is given at once, at most.

    Example:

    ```python
    model = open_text_model("saved_models/dates")
    scores = list(score_pairs(model, ["12. Mai 2021"], ["2021-05-12"]))
    total = sum(scores, Score(0.0, 0))
    print(total.perplexity)
    ```
    """
    require_text_generator(text_model)
    window = require_positive_integer("window", window)
    return _score(text_model.signatures["score"], _pairs(sources, targets), window)


def _pairs(sources, targets):
    for number, pair in enumerate(itertools.zip_longest(sources, targets)):
        if None in pair:
            shorter, longer = ("sources", "targets")[:: 1 if pair[0] is None else -1]
            raise UserError(
                f"There must be as many sources as targets; the {shorter} end after {number:,}, "
                f"the {longer} go on."
            )
        yield pair


def _score(signature, pairs, window):
    for rows in in_windows(pairs, window, characters=lambda pair: sum(map(len, pair))):
        sources, targets = zip(*rows, strict=True)
        found = signature(source=as_tensor(sources), target=as_tensor(targets))
        parts = (found[name].numpy().tolist() for name in ("log_probability", "tokens"))
        yield from itertools.starmap(Score, zip(*parts, strict=True))
