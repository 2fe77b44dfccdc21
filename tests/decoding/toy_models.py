"""Models with few tokens whose every logit is known, with the interface that searches use."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import LengthLimits
from keras_transformer.text import SpecialIds
from tests.decoding.reference import DEFAULT, END, PADDING

GROUPS = 32
PHASES = 5
LONGEST_SOURCE = 8


def at_most(maximum, minimum=1):
    """Returns limits of the length that do not depend on the source."""
    return LengthLimits(maximum=maximum, minimum=minimum, maximum_ratio=None)


def pieces_of(vocabulary, special=DEFAULT):
    """Returns the ids that are not special."""
    return np.setdiff1d(np.arange(vocabulary), special)


class Tables(NamedTuple):
    """Everything that a `TableModel` computes with, for V tokens.

    Attributes:
        logits: `[GROUPS, V, V, V]`, by source, second to last token, and last token.
        drift: `[PHASES, V]`, added to the logits, by position.
        attention: `[GROUPS, V, V, LONGEST_SOURCE]`, scores of source positions.
    """

    logits: np.ndarray
    drift: np.ndarray
    attention: np.ndarray


def random_tables(seed, vocabulary=7, scale=1.5, end=0.0, special=DEFAULT):
    """Returns tables of random numbers; `end` is added to the logits of the end id."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, scale, (GROUPS, vocabulary, vocabulary, vocabulary))
    logits[..., special.end] += end
    drift = random.normal(0, scale / 2, (PHASES, vocabulary))
    attention = random.normal(0, 2, (GROUPS, vocabulary, vocabulary, LONGEST_SOURCE))
    return Tables(*(array.astype("float32") for array in (logits, drift, attention)))


def random_sources(seed, rows, vocabulary=7, longest=6, special=DEFAULT):
    """Returns source ids `[rows, longest]` of mixed lengths, with the end id."""
    random = np.random.default_rng(seed)
    pieces = pieces_of(vocabulary, special)
    sources = np.full((rows, longest), special.padding, "int32")
    for row in sources:
        length = random.integers(1, longest + 1)
        row[: length - 1] = pieces[random.integers(0, len(pieces), length - 1)]
        row[length - 1] = special.end
    return sources


class TableMemory(NamedTuple):
    """Result of `TableModel.encode`."""

    states: tf.Tensor  # int32 [B], the group of each source
    mask: tf.Tensor  # [B, S]


class TableModel:
    """Model whose logits and attention depend on the source, position and last two tokens.

    It keeps tokens in a cache of `max_length` entries, as a Transformer keeps its keys: a search
    that reorders wrongly, feeds a step too many, or requests too small a cache gets other logits.

    Args:
        tables: `Tables` of arrays or tensors.
        shares_memory: Whether values of the source are in the state's "memory", once for each
            source, or are repeated for each hypothesis.
        position_limit: Maximum number of tokens that it can read, or None.
        special: Special ids. By default the model does not have the attribute `special_ids`.
    """

    def __init__(self, tables, shares_memory=True, position_limit=None, special=None):
        self.tables = Tables(*map(tf.convert_to_tensor, tables))
        self.shares_memory = shares_memory
        self.position_limit = position_limit
        self.padding = (special or DEFAULT).padding
        if special is not None:
            self.special_ids = SpecialIds(**special._asdict())

    def encode(self, source):
        source = tf.convert_to_tensor(source)
        mask = tf.not_equal(source, self.padding)
        weights = tf.range(1, tf.shape(source)[1] + 1)
        group = tf.reduce_sum(tf.where(mask, source * weights, 0), axis=1) % GROUPS
        return TableMemory(group, mask)

    def initial_state(self, memory, max_length):
        state = {
            "position": tf.constant(0),
            "tokens": tf.zeros([tf.shape(memory.states)[0], max_length], tf.int32),
        }
        source = {"group": memory.states, "mask": memory.mask}
        return {**state, "memory": source} if self.shares_memory else {**state, **source}

    def step(self, ids, state, return_attention=False):
        position, tokens = state["position"], state["tokens"]
        is_here = tf.range(tf.shape(tokens)[1]) == position
        tokens = tf.where(is_here, ids[:, None], tokens)
        group, mask = self._source_of_each_row(state, tf.shape(ids)[0])
        where = tf.stack(
            [group, tf.gather(tokens, tf.maximum(position - 1, 0), axis=1), tokens[:, position]],
            axis=1,
        )
        logits = tf.gather_nd(self.tables.logits, where) + self.tables.drift[position % PHASES]
        state = {**state, "position": position + 1, "tokens": tokens}
        if not return_attention:
            return logits, state
        scores = tf.gather_nd(self.tables.attention, where)[:, : tf.shape(mask)[1]]
        return logits, tf.nn.softmax(tf.where(mask, scores, -1e9)), state

    def _source_of_each_row(self, state, rows):
        """Returns the group `[R]` and the mask `[R, S]` of each row."""
        if not self.shares_memory:
            return state["group"], state["mask"]
        group, mask = state["memory"]["group"], state["memory"]["mask"]
        sources, length = tf.unstack(tf.shape(mask))
        each = rows // tf.maximum(sources, 1)
        group = tf.broadcast_to(group[:, None], [sources, each])
        mask = tf.broadcast_to(mask[:, None], [sources, each, length])
        return tf.reshape(group, [rows]), tf.reshape(mask, [rows, length])


class PromptModel:
    """`TableModel` without a source, like a language model."""

    position_limit = None

    def __init__(self, tables, special=None):
        self.table_model = TableModel(tables, special=special)
        if special is not None:
            self.special_ids = self.table_model.special_ids

    def initial_state(self, batch_size, max_length):
        memory = TableMemory(tf.zeros([batch_size], tf.int32), tf.zeros([batch_size, 0], tf.bool))
        return self.table_model.initial_state(memory, max_length)

    def step(self, ids, state):
        return self.table_model.step(ids, state)


def row_model(tables, source=None, special=DEFAULT):
    """Returns one row of a `TableModel` as a function for the reference."""
    source = np.array([] if source is None else source, int)
    is_token = source != special.padding
    group = int((source * is_token) @ np.arange(1, len(source) + 1)) % GROUPS
    length = np.count_nonzero(is_token)

    def model(ids):
        history = (special.start, special.start, *ids)
        where = (group, *history[-2:])
        scores = np.exp(tables.attention[where][:length].astype("float64"))
        return tables.logits[where] + tables.drift[len(ids) % PHASES], scores / scores.sum()

    return model


class CountdownModel:
    """Model that repeats one token as often as the first source token says, then ends.

    It counts its steps. A source `[[6], [9]]` makes rows of 6 and 9 tokens and the end id. All
    other tokens have almost no probability: with 2**15 tokens, one in 10**13.
    """

    said = 5
    position_limit = None

    def __init__(self, vocabulary=12):
        self.vocabulary = vocabulary
        self.steps = tf.Variable(0)

    def encode(self, source):
        source = tf.convert_to_tensor(source)
        return TableMemory(source[:, 0], tf.not_equal(source, PADDING))

    def initial_state(self, memory, max_length):
        return {"position": tf.constant(0), "count": memory.states}

    def step(self, ids, state):
        self.steps.assign_add(1)
        following = tf.where(state["position"] < state["count"], self.said, END)
        state = {**state, "position": state["position"] + 1}
        return 40.0 * tf.one_hot(following, self.vocabulary), state
