"""Result of a search, and operations on the rows of its hypotheses.

B is the number of inputs, N the number of hypotheses of each and T the longest length. The N
hypotheses of an input are consecutive rows: models see R = B·N rows, searches compare `[B, N]`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

#: Entries of a model's state that have a row for each input, not for each hypothesis.
_SHARED = ("memory", "source", "kernels")


class Hypotheses(NamedTuple):
    """N hypotheses for each of B inputs, best first.

    Attributes:
        ids: int32 `[B, N, T]`. Tokens with the end id, without the start id, then padding.
        lengths: int32 `[B, N]`. Number of those tokens; 0 for a missing hypothesis, where an input
            has fewer than N.
        score: float32 `[B, N]`. Score that the search ranked by; -inf for a missing hypothesis.
        log_probability: float32 `[B, N]`. Log-probability under the model, without a forced prefix;
            0 for a missing hypothesis.
        alignment: int32 `[B, N, T]`. Source position that each token attended to most, then zeros;
            None unless the search has `with_alignment`.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    score: tf.Tensor
    log_probability: tf.Tensor
    alignment: tf.Tensor | None = None


def length_divisor(length: tf.Tensor, exponent: float) -> tf.Tensor:
    """Returns `((5 + length) / 6) ** exponent`, which normalizes a sum of log-probabilities.

    Wu et al. 2016, "Google's Neural Machine Translation System", section 7.

    >>> float(length_divisor(7, exponent=1.0))
    2.0
    """
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** exponent


def split_rows(rows: tf.Tensor, num_hypotheses: int, *sizes: int | tf.Tensor) -> tf.Tensor:
    """Returns rows `[B·N, *sizes]` as `[B, N, *sizes]`."""
    return tf.reshape(rows, [-1, num_hypotheses, *sizes])


def merge_rows(hypotheses: tf.Tensor, *sizes: int | tf.Tensor) -> tf.Tensor:
    """Returns hypotheses `[B, N, *sizes]` as rows `[B·N, *sizes]`."""
    return tf.reshape(hypotheses, [-1, *sizes])


def row_indices(inputs: tf.Tensor, num_hypotheses: int, places: tf.Tensor) -> tf.Tensor:
    """Returns the rows `[B, M]` of hypotheses `places` (`[B, M]` or `[M]`) of `inputs` `[B]`."""
    return inputs[:, None] * num_hypotheses + places


def repeat_rows(state: dict[str, Any], times: int) -> dict[str, Any]:
    """Returns a model's state with every row `times` times, copies next to each other."""
    return _map_rows(lambda rows: tf.repeat(rows, times, axis=0), state)


def take_rows(state: dict[str, Any], indices: tf.Tensor) -> dict[str, Any]:
    """Returns a model's state with the rows `indices` `[R]`."""
    return _map_rows(lambda rows: tf.gather(rows, indices), state)


def write_column(table: tf.Tensor, column: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns `table` `[…, T]` with `values` `[…]` in one of its columns."""
    is_there = tf.range(tf.shape(table)[-1]) == column
    return tf.where(is_there, values[..., None], table)


def set_shapes(variables: Any, like: Any) -> Any:
    """Returns loop variables with the static shapes of `like`, which a graph's loop must keep."""
    if tf.executing_eagerly():
        return variables

    def set_shape(new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        new.set_shape(old.shape)
        return new

    return tf.nest.map_structure(set_shape, variables, like)


def _map_rows(function: Callable[[tf.Tensor], tf.Tensor], state: dict[str, Any]) -> dict[str, Any]:
    def of_hypotheses(leaf: tf.Tensor) -> tf.Tensor:
        return leaf if leaf.shape.rank == 0 else function(leaf)

    return {
        name: entry if name in _SHARED else tf.nest.map_structure(of_hypotheses, entry)
        for name, entry in state.items()
    }
