"""Models over a small alphabet whose every logit is known, and what search sees of them."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tests.decoding.reference import END, PADDING, START

GROUPS = 32
PHASES = 5
WIDEST_SOURCE = 8


class Tables(NamedTuple):
    """All that a `TableModel` knows, for V tokens.

    Attributes:
        logits: `[GROUPS, V, V, V]`, by source, last token but one, and last token.
        drift: `[PHASES, V]`, added to the logits, by position.
        attention: `[GROUPS, V, V, WIDEST_SOURCE]`, scores of source positions.
    """

    logits: np.ndarray
    drift: np.ndarray
    attention: np.ndarray


def random_tables(seed, vocabulary=7, scale=1.5, end=0.0):
    """Tables of random numbers; `end` is added to the logits of the end."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, scale, (GROUPS, vocabulary, vocabulary, vocabulary))
    logits[..., END] += end
    drift = random.normal(0, scale / 2, (PHASES, vocabulary))
    attention = random.normal(0, 2, (GROUPS, vocabulary, vocabulary, WIDEST_SOURCE))
    return Tables(*(array.astype("float32") for array in (logits, drift, attention)))


def random_sources(seed, rows, vocabulary=7, longest=6):
    """Source tokens `[rows, longest]` of mixed lengths, the end included."""
    random = np.random.default_rng(seed)
    sources = np.full((rows, longest), PADDING, "int32")
    for row in sources:
        length = random.integers(1, longest + 1)
        row[: length - 1] = random.integers(END + 1, vocabulary, length - 1)
        row[length - 1] = END
    return sources


class TableMemory(NamedTuple):
    """What `TableModel.encode` gives."""

    states: tf.Tensor  # int32 [B], the group of each source
    mask: tf.Tensor  # [B, S]


class TableModel:
    """Logits and attention that depend on the source, the position and the last two tokens.

    Tokens are kept in a cache of `max_length` places, as a Transformer keeps its keys: a search
    that reorders wrongly, feeds a step too many, or asks for too few places gets other logits.

    Args:
        tables: `Tables`, of arrays or tensors.
        shares_memory: whether what comes from the source stands under "memory", once for each
            source, or is repeated for each hypothesis.
        position_limit: the most tokens that it can read, if it has a limit.
    """

    def __init__(self, tables, shares_memory=True, position_limit=None):
        self.tables = Tables(*map(tf.convert_to_tensor, tables))
        self.shares_memory = shares_memory
        self.position_limit = position_limit

    def encode(self, source):
        source = tf.convert_to_tensor(source)
        weights = tf.range(1, tf.shape(source)[1] + 1)
        return TableMemory(
            tf.reduce_sum(source * weights, axis=1) % GROUPS, tf.not_equal(source, PADDING)
        )

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
        """Group `[R]` and mask `[R, S]`."""
        if not self.shares_memory:
            return state["group"], state["mask"]
        group, mask = state["memory"]["group"], state["memory"]["mask"]
        sources, width = tf.unstack(tf.shape(mask))
        each = rows // tf.maximum(sources, 1)
        group = tf.broadcast_to(group[:, None], [sources, each])
        mask = tf.broadcast_to(mask[:, None], [sources, each, width])
        return tf.reshape(group, [rows]), tf.reshape(mask, [rows, width])


class PromptModel:
    """A `TableModel` without a source, as a language model is."""

    position_limit = None

    def __init__(self, tables):
        self.table_model = TableModel(tables)

    def initial_state(self, batch_size, max_length):
        memory = TableMemory(tf.zeros([batch_size], tf.int32), tf.zeros([batch_size, 0], tf.bool))
        return self.table_model.initial_state(memory, max_length)

    def step(self, ids, state):
        return self.table_model.step(ids, state)


def row_model(tables, source=None):
    """What a `TableModel` is for one row, as a function for the reference."""
    source = np.array([] if source is None else source, int)
    group = int(source @ np.arange(1, len(source) + 1)) % GROUPS
    length = np.count_nonzero(source)

    def model(ids):
        history = (START, START, *ids)
        where = (group, *history[-2:])
        scores = np.exp(tables.attention[where][:length].astype("float64"))
        return tables.logits[where] + tables.drift[len(ids) % PHASES], scores / scores.sum()

    return model


class CountdownModel:
    """Says one token as often as the first source token says, then ends; counts its steps.

    A source `[[6], [9]]` makes rows of 6 and 9 tokens and the end. All else has no probability to
    speak of: with 2**15 tokens, one in 10**13.
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
