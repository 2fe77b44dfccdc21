"""Greedy search: the most likely next token."""

import dataclasses
from typing import Any

import tensorflow as tf

from keras_transformer.decoding.constraints import Candidates, LogitsProcessor
from keras_transformer.decoding.search import Hypotheses, Loop, SequentialSearch, Source
from keras_transformer.decoding.search_settings import register_search
from keras_transformer.text.tokenizer import Ids


@register_search("greedy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class GreedySearch(SequentialSearch):
    """Search that chooses the most likely next token until it is the end id.

    >>> from keras_transformer.decoding import LengthLimits
    >>> from keras_transformer.models import Transformer
    >>> model = Transformer.from_size("tiny", vocabulary_size=1000)
    >>> search = GreedySearch(lengths=LengthLimits(maximum=9))
    >>> search(model, source=[[5, 6, 7, 3], [8, 3, 0, 0]]).score.shape
    TensorShape([2, 1])

    Args:
        length_penalty: Exponent of the length normalization of scores.
        lengths: Minimum and maximum lengths. Defaults to `LengthLimits()`.
        constraints: `Constraint` or `Constraint`s, applied in this order.
        with_alignment: Whether to return the source position that each token attended to most.
    """

    def __call__(
        self, model: Any, source: Source | None = None, prefix: Ids | None = None
    ) -> Hypotheses:
        return self.run(model, source, prefix)

    def choose(
        self, processor: LogitsProcessor, logits: tf.Tensor, loop: Loop, seed: Any
    ) -> Candidates:
        best = processor.top_k(logits, loop["ids"], loop["length"], k=1)
        return Candidates(*(part[:, 0] for part in best))
