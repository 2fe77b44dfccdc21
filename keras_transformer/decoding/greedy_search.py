"""The likeliest token, again and again."""

import dataclasses

from keras_transformer.decoding.rules import Candidates
from keras_transformer.decoding.sequential_search import SequentialSearch


@dataclasses.dataclass(frozen=True, kw_only=True)
class GreedySearch(SequentialSearch):
    """Chooses the likeliest next token until it is END. Attributes: see `Search`.

    >>> from keras_transformer import Transformer
    >>> from keras_transformer.decoding import LengthLimits
    >>> model = Transformer.from_preset("tiny", vocabulary_size=1000)
    >>> search = GreedySearch(lengths=LengthLimits(maximum=9))
    >>> found = search(model, source=[[5, 6, 7, 3], [8, 3, 0, 0]])
    >>> found.score.shape
    TensorShape([2, 1])
    """

    def __call__(self, model, source=None, prefix=None):
        return self.run(model, source, prefix)

    def choose(self, rules, logits, ids, length, seed):
        best = rules.best(logits, ids, length, count=1)
        return Candidates(*(part[:, 0] for part in best))
