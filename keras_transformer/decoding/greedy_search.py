"""The likeliest token, again and again."""

import dataclasses

import tensorflow as tf

from keras_transformer.decoding.constraints import Candidates
from keras_transformer.decoding.search import (
    Hypotheses,
    Search,
    attended,
    length_divisor,
    with_shapes_of,
    write_column,
)
from keras_transformer.text import END_ID, PADDING_ID, START_ID


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequentialSearch(Search):
    """Base of the searches in which each row chooses its next token and never looks back."""

    def choose(self, rules, logits, ids, length, seed):
        """The next token of each row: `Candidates`, but of shape `[R]`.

        Args:
            rules: the `Rules` of what may come.
            logits: `[R, V]`, the model's.
            ids: int32 `[R, T]`, the tokens so far.
            length: how many they are.
            seed: what `run` was given.
        """
        raise NotImplementedError

    def run(self, model, source, prefix, seed=None):
        start = self.begin(model, source, prefix)
        rules, capacity = start.rules, start.capacity
        rows = start.batch_size * self.width
        loop = {
            "length": tf.constant(0),
            "ids": tf.fill([rows, capacity], PADDING_ID),
            "latest": tf.fill([rows], START_ID),
            "is_done": tf.fill([rows], False),
            "score": tf.zeros([rows]),
            "log_probability": tf.zeros([rows]),
            "state": start.state,
        }
        if self.with_alignment:
            loop["alignment"] = tf.zeros([rows, capacity], tf.int32)

        def goes_on(loop):
            return (loop["length"] < capacity) & ~tf.reduce_all(loop["is_done"])

        def advance(loop):
            length, is_done = loop["length"], loop["is_done"]
            logits, attention, state = start.step(loop["latest"], loop["state"])
            choice = self.choose(rules, logits, loop["ids"], length, seed)
            chosen = tf.where(is_done, PADDING_ID, choice.tokens)
            is_given = rules.is_given(length)
            is_free = is_done | is_given

            new = {
                "length": length + 1,
                "ids": write_column(loop["ids"], length, chosen),
                "latest": chosen,
                "is_done": is_done | ((chosen == END_ID) & ~is_given),
                "score": loop["score"] + tf.where(is_free, 0.0, choice.scores),
                "log_probability": loop["log_probability"]
                + tf.where(is_free, 0.0, choice.log_probabilities),
                "state": state,
            }
            if self.with_alignment:
                places = tf.where(is_done, 0, attended(attention))
                new["alignment"] = write_column(loop["alignment"], length, places)
            return (with_shapes_of(loop, new),)

        (loop,) = tf.while_loop(goes_on, advance, (loop,))
        lengths = tf.reduce_sum(tf.cast(loop["ids"] != PADDING_ID, tf.int32), axis=1)
        divisor = length_divisor(lengths - rules.prefix_lengths, self.length_penalty)
        loop |= {"lengths": lengths, "score": loop["score"] / divisor}
        found = {name: loop[name] for name in Hypotheses._fields if name in loop}
        return Hypotheses(**self._best_first(start.batch_size, found))

    def _best_first(self, batch_size, found):
        """Rows `[B·N, …]` as `[B, N, …]`, sorted by score."""
        found = {
            name: tf.reshape(rows, tf.concat([[batch_size, self.width], tf.shape(rows)[1:]], 0))
            for name, rows in found.items()
        }
        if self.width == 1:
            return found
        order = tf.argsort(found["score"], direction="DESCENDING", stable=True)
        return {name: tf.gather(rows, order, batch_dims=1) for name, rows in found.items()}


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
