"""A batch of any size, in parts of bounded size."""

import tensorflow as tf


def in_sub_batches(function, columns, lengths, empty, limits):
    """Applies `function` to parts of a batch, rows of like length together; a graph op.

    However large the batch, memory is bounded by the largest part; and since rows are sorted by
    length first, there is little padding.

    Args:
        function: takes a dictionary like `columns` of the rows of one part, and returns a
            dictionary like `empty` with as many rows.
        columns: dictionary of tensors or ragged tensors with B rows.
        lengths: int `[B]`, the tokens of each row.
        empty: what `function` gives for no rows: a dictionary of tensors with 0 rows.
        limits: a `TextLimits`.

    Returns:
        a dictionary like `empty`, with the rows in the order of the batch.
    """
    lengths = tf.cast(lengths, tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    batch_size = tf.shape(order)[0]

    def goes_on(start, results):
        return start < batch_size

    def advance(start, results):
        longest = tf.maximum(lengths[order[start]], 1)
        count = tf.clip_by_value(limits.tokens_at_once // longest, 1, limits.rows_at_once)
        rows = order[start : start + count]
        part = function({name: tf.gather(column, rows) for name, column in columns.items()})
        grown = {name: tf.concat([results[name], part[name]], axis=0) for name in results}
        return start + count, grown

    shapes = {name: tf.TensorShape([None, *value.shape[1:]]) for name, value in empty.items()}
    _, results = tf.while_loop(
        goes_on,
        advance,
        (tf.constant(0), empty),
        shape_invariants=(tf.TensorShape([]), shapes),
        parallel_iterations=1,
    )
    places = tf.math.invert_permutation(order)
    return {name: tf.gather(value, places) for name, value in results.items()}
