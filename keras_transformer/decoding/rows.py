"""The rows of a state: repeated, reordered, put where they belong."""

import tensorflow as tf

#: The entries of a state that hypotheses share: those of one source, and all of them.
SHARED = ("memory", "source", "kernels")


def repeat_rows(state, times):
    """A state in which each row of the hypotheses comes `times` times, one after the other."""
    return _map_rows(lambda rows: tf.repeat(rows, times, axis=0), state)


def take_rows(state, indices):
    """A state whose hypotheses are the rows `indices` `[R]` of this one."""
    return _map_rows(lambda rows: tf.gather(rows, indices), state)


def with_shapes_of(old, new):
    """`new`, known to have the static shapes of `old`: a graph's loop must keep them."""
    if tf.executing_eagerly():
        return new

    def keep(old, new):
        new.set_shape(old.shape)
        return new

    return tf.nest.map_structure(keep, old, new)


def write_column(table, column, values):
    """`table` `[…, T]` with `values` `[…]` in one of its columns."""
    is_there = tf.range(tf.shape(table)[-1]) == column
    return tf.where(is_there, values[..., None], table)


def _map_rows(function, state):
    def of_hypotheses(leaf):
        return leaf if leaf.shape.rank == 0 else function(leaf)

    return {
        name: entry if name in SHARED else tf.nest.map_structure(of_hypotheses, entry)
        for name, entry in state.items()
    }
