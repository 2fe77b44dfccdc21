"""Tokens drawn by their probability."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_not_negative,
    require_positive,
    require_positive_integer,
    require_seed,
)
from keras_transformer.decoding.constraints import NEVER, Candidates
from keras_transformer.decoding.greedy_search import SequentialSearch
from keras_transformer.decoding.search import ids_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingSearch(SequentialSearch):
    """Draws each next token at random, by the model's probabilities.

    What a row draws depends on the seed and the row's number alone, whatever the other rows are.

    Attributes: those of `Search`, and
        samples: hypotheses for each input, drawn independently.
        temperature: divides the log-probabilities first: below 1 the likely become likelier, above
            1 less likely; 0 is greedy. May be a scalar tensor.
        top_k: draw among so many of the likeliest tokens (Fan et al. 2018, "Hierarchical Neural
            Story Generation").
        top_p: draw among the fewest of the likeliest tokens whose probabilities add up to this
            (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration").

    >>> from keras_transformer import LanguageModel
    >>> from keras_transformer.decoding import LengthLimits
    >>> model = LanguageModel.from_preset("tiny", vocabulary_size=1000)
    >>> search = SamplingSearch(samples=3, top_k=50, lengths=LengthLimits(maximum=9))
    >>> found = search(model, prefix=[[5, 6, 7]], seed=1)
    >>> found.ids.shape[:2]
    TensorShape([1, 3])
    """

    samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self):
        super().__post_init__()
        require_positive_integer("samples", self.samples)
        if not tf.is_tensor(self.temperature):
            require_not_negative("temperature", self.temperature)
        if self.top_k is not None:
            require_positive_integer("top_k", self.top_k)
        if self.top_p is not None:
            require_positive("top_p", self.top_p)
            if self.top_p > 1:
                raise ValueError(f"`top_p` must be at most 1; got {self.top_p}.")

    @property
    def call_inputs(self):
        return {"seed": tf.TensorSpec([], tf.int64, name="seed")}

    @property
    def width(self):
        return self.samples

    def __call__(self, model, source=None, prefix=None, seed=0, rows=None):
        """As `Search.__call__`, and:

        Args:
            seed: an integer or a scalar tensor; the same repeats the draws.
            rows: int32 `[B]`, the numbers of the rows, if they are not simply counted: for a part
                of a larger batch.
        """
        if not tf.is_tensor(seed):
            seed = np.uint64(require_seed("seed", seed)).astype(np.int64)
        if rows is None:
            rows = tf.range(tf.shape(prefix if source is None else ids_of(source))[0])
        numbers = rows[:, None] * self.samples + tf.range(self.samples)
        return self.run(model, source, prefix, (tf.cast(seed, tf.int64), tf.reshape(numbers, [-1])))

    def choose(self, rules, logits, ids, length, seed):
        log_probabilities = tf.nn.log_softmax(logits)
        scores = rules.apply(log_probabilities, ids, length)
        drawn = self._draw(scores, length, seed)
        of_drawn = (
            tf.gather(values, drawn, axis=1, batch_dims=1) for values in (scores, log_probabilities)
        )
        return Candidates(drawn, *of_drawn)

    def _draw(self, scores, length, seed):
        """The next token `[R]` by scores `[R, V]`, after `length` others."""
        temperature = tf.convert_to_tensor(self.temperature, tf.float32)
        is_greedy = temperature <= 0
        logits = scores / tf.where(is_greedy, 1.0, temperature)
        if self.top_k is not None:
            logits = _only_best(logits, self.top_k)
        if self.top_p is not None:
            logits = _only_nucleus(logits, self.top_p)
        # The Gumbel-max trick: the largest of these is a draw from the softmax.
        seed, rows = seed
        seeds = tf.stack([seed, tf.cast(length, tf.int64)])
        uniform = _uniform(rows, tf.shape(logits)[1], seeds)
        noise = tf.where(is_greedy, 0.0, -tf.math.log(-tf.math.log(uniform)))
        return tf.argmax(logits + noise, axis=1, output_type=tf.int32)


def _uniform(rows, size, seed):
    """Random numbers `[R, size]` between 0 and 1, neither of them included.

    Made from random bits, which are the same plain and under XLA; TensorFlow's own random floats
    are not. Each of the `rows` `[R]` mixes them with its number, so that it needs no other row.
    """
    bits = tf.random.stateless_uniform(
        [1, size], seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox"
    )
    keys = _mix(_mix(tf.cast(rows, tf.uint32)[:, None] + tf.constant(0x9E3779B9, tf.uint32)))
    # 23 bits and a half, which is all that a float32 holds: one more would round up to 1.
    upper = tf.bitwise.right_shift(_mix(bits ^ keys), tf.constant(9, tf.uint32))
    return (tf.cast(tf.cast(upper, tf.int32), tf.float32) + 0.5) * 2.0**-23


def _mix(bits):
    """Each of 32 bits changes each other with probability 1/2 (the finalizer of MurmurHash3)."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        bits ^= tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint32))
        bits *= tf.constant(factor, tf.uint32)
    return bits


def _only_best(logits, k):
    """All but the `k` largest of each row become -inf."""
    k = tf.minimum(k, tf.shape(logits)[1])
    smallest = tf.math.top_k(logits, k).values[:, -1:]
    return tf.where(logits < smallest, NEVER, logits)


def _only_nucleus(logits, p):
    """All but the fewest whose probabilities reach `p` become -inf; the largest always stays."""
    descending = tf.sort(logits, direction="DESCENDING")
    before = tf.cumsum(tf.nn.softmax(descending), axis=1, exclusive=True)
    smallest = tf.reduce_min(tf.where(before < p, descending, np.inf), axis=1, keepdims=True)
    return tf.where(logits < smallest, NEVER, logits)
