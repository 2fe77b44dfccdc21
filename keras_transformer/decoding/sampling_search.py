"""Sampling: next tokens drawn at random by their probability."""

import dataclasses
from typing import Any, Self

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import (
    TEMPERATURES,
    require_positive_integer,
    require_positive_share,
    require_seed,
    require_temperature,
)
from keras_transformer.decoding.constraints import MINUS_INFINITY, Candidates, LogitsProcessor
from keras_transformer.decoding.search import Hypotheses, Loop, SequentialSearch, Source, ids_of
from keras_transformer.decoding.search_settings import register_search
from keras_transformer.text.tokenizer import Ids


@register_search("sampling")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingSearch(SequentialSearch):
    """Search that draws each next token at random by the probabilities of the model.

    The draws of a row depend on the seed and the row's number alone, not on the other rows.

    >>> from keras_transformer.decoding import LengthLimits
    >>> from keras_transformer.models import LanguageModel
    >>> model = LanguageModel.from_size("tiny", vocabulary_size=1000)
    >>> search = SamplingSearch(samples=3, top_k=50, lengths=LengthLimits(maximum=9))
    >>> search(model, prefix=[[5, 6, 7]], seed=1).ids.shape[:2]
    TensorShape([1, 3])

    Args:
        samples: Number of hypotheses of each input, drawn independently.
        temperature: Divides the log-probabilities first: below 1 makes likely tokens more likely,
            above 1 less; 0 is greedy search. Others are from 0.0001 to 10,000; in a graph, smaller
            and larger ones are replaced by these.
        top_k: Draw among this number of most likely tokens; None for no limit (Fan et al. 2018,
            "Hierarchical Neural Story Generation").
        top_p: Draw among the fewest most likely tokens with this total probability; None for no
            limit (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration").
        length_penalty: Exponent of the length normalization of scores.
        lengths: Minimum and maximum lengths. Defaults to `LengthLimits()`.
        constraints: `Constraint` or `Constraint`s, applied in this order.
        with_alignment: Whether to return the source position that each token attended to most.
    """

    samples: int = 1
    temperature: float | tf.Tensor = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive_integer("samples", self.samples)
        if not tf.is_tensor(self.temperature):
            require_temperature("temperature", self.temperature)
        if self.top_k is not None:
            require_positive_integer("top_k", self.top_k)
        if self.top_p is not None:
            require_positive_share("top_p", self.top_p)

    @property
    def call_inputs(self) -> dict[str, tf.TensorSpec]:
        return {"seed": tf.TensorSpec([], tf.int64, name="seed")}

    @property
    def num_hypotheses(self) -> int:
        return self.samples

    n_best = num_hypotheses  # type: ignore[assignment]

    def with_n_best(self, n: int) -> Self:
        """Returns the search that draws `n` hypotheses of each input."""
        return dataclasses.replace(self, samples=n)

    def __call__(
        self,
        model: Any,
        source: Source | None = None,
        prefix: Ids | None = None,
        seed: int | tf.Tensor = 0,
        rows: tf.Tensor | None = None,
    ) -> Hypotheses:
        """Returns the hypotheses of a batch.

        Args:
            model: A `Transformer`, a `LanguageModel` or any object with their methods.
            source: int32 `[B, S]`. Source ids, or a dictionary with them as "source".
            prefix: int32 `[B, P]`. Ids that the hypotheses must begin with, such as a prompt.
            seed: The same seed gives the same draws.
            rows: int32 `[B]`. Numbers of the rows in a larger batch. Defaults to 0, 1, and so on.
        """
        if not tf.is_tensor(seed):
            seed = np.uint64(require_seed("seed", seed)).astype(np.int64)
        if rows is None:
            rows = tf.range(tf.shape(prefix if source is None else ids_of(source))[0])
        numbers = tf.expand_dims(rows, axis=1) * self.samples + tf.range(self.samples)  # [B, N]
        return self.run(model, source, prefix, (tf.cast(seed, tf.int64), tf.reshape(numbers, [-1])))

    def choose(
        self, processor: LogitsProcessor, logits: tf.Tensor, loop: Loop, seed: Any
    ) -> Candidates:
        log_probabilities = tf.nn.log_softmax(logits)
        scores = processor.process(log_probabilities, loop["ids"], loop["length"])
        drawn = self._draw(scores, loop["length"], seed)
        both = (scores, log_probabilities)
        return Candidates(drawn, *(tf.gather(each, drawn, axis=1, batch_dims=1) for each in both))

    def _draw(
        self, scores: tf.Tensor, length: tf.Tensor, seed: tuple[tf.Tensor, tf.Tensor]
    ) -> tf.Tensor:
        """Returns the next token `[R]` by scores `[R, V]`, after `length` others."""
        temperature = tf.convert_to_tensor(self.temperature, tf.float32)
        is_greedy = temperature <= 0
        logits = scores / tf.where(is_greedy, 1.0, tf.clip_by_value(temperature, *TEMPERATURES))
        if self.top_k is not None:
            logits = _keep_top_k(logits, self.top_k)
        if self.top_p is not None:
            logits = _keep_top_p(logits, self.top_p)
        # Gumbel-max: the largest of logits plus noise is a draw from the softmax.
        number, rows = seed
        seeds = tf.stack([number, tf.cast(length, tf.int64)])
        uniform = _uniform(rows, tf.shape(logits)[1], seeds)
        noise = tf.where(is_greedy, 0.0, -tf.math.log(-tf.math.log(uniform)))
        return tf.argmax(logits + noise, axis=1, output_type=tf.int32)


def _keep_top_k(logits: tf.Tensor, k: int) -> tf.Tensor:
    """Returns logits with -inf for all but the `k` largest of each row."""
    k = tf.minimum(k, tf.shape(logits)[1])
    smallest = tf.math.top_k(logits, k).values[:, -1:]
    return tf.where(logits < smallest, MINUS_INFINITY, logits)


def _keep_top_p(logits: tf.Tensor, p: float) -> tf.Tensor:
    """Returns logits with -inf for all but the fewest whose probabilities reach `p`.

    The largest always stays.
    """
    descending = tf.sort(logits, direction="DESCENDING")
    before = tf.cumsum(tf.nn.softmax(descending), axis=1, exclusive=True)
    smallest = tf.reduce_min(tf.where(before < p, descending, np.inf), axis=1, keepdims=True)
    return tf.where(logits < smallest, MINUS_INFINITY, logits)


def _uniform(rows: tf.Tensor, size: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns random numbers `[R, size]` between 0 and 1, both excluded.

    They are made from random bits, which are the same with and without XLA, unlike TensorFlow's own
    random floats. Each of the `rows` `[R]` mixes the bits with its number, so that its numbers do
    not depend on the other rows.
    """
    bits = tf.random.stateless_uniform(
        [1, size], seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox"
    )
    keys = _mix(_mix(tf.cast(rows, tf.uint32)[:, None] + tf.constant(0x9E3779B9, tf.uint32)))
    # 23 bits, and the addition of one half, fit into a float32; one more bit would round up to 1.
    upper = tf.bitwise.right_shift(_mix(bits ^ keys), tf.constant(9, tf.uint32))
    return (tf.cast(tf.cast(upper, tf.int32), tf.float32) + 0.5) * 2.0**-23


def _mix(bits: tf.Tensor) -> tf.Tensor:
    """Mixes 32 bits: each bit flips any other with probability 1/2 (finalizer of MurmurHash3)."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        bits ^= tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint32))
        bits *= tf.constant(factor, tf.uint32)
    return bits
