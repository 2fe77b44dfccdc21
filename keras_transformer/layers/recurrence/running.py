"""The loop of all recurrent layers."""

import tensorflow as tf


def run_over_time(advance, inputs, state, outputs):
    """Runs a step over a sequence.

    One step alone is no loop: decoding token by token is as fast as it can be.

    Args:
        advance: `(time, inputs at that time, state) -> (outputs, state)`, with a tuple of outputs.
        inputs: a tuple of tensors `[T, …]`.
        state: a nest of tensors; it keeps its structure and shapes.
        outputs: the dtypes of the outputs.

    Returns:
        the outputs, a tuple of tensors `[T, …]`, and the last state.

    >>> def add(time, inputs, total):
    ...     return (total + inputs[0],), total + inputs[0]
    >>> (sums,), _ = run_over_time(add, (tf.constant([1, 2, 3]),), tf.constant(0), [tf.int32])
    >>> sums.numpy().tolist()
    [1, 3, 6]
    """
    length = inputs[0].shape[0]
    if length == 1:
        found, state = advance(0, tuple(each[0] for each in inputs), state)
        return tuple(each[None] for each in found), state
    steps = tf.shape(inputs[0])[0]
    # Arrays, as the gradient of a slice would be as long as the whole sequence at each step.
    read = [tf.TensorArray(each.dtype, steps).unstack(each) for each in inputs]
    write = tuple(tf.TensorArray(dtype, steps) for dtype in outputs)

    def body(time, state, write):
        found, new = advance(time, tuple(array.read(time) for array in read), state)
        tf.nest.map_structure(lambda old, new: new.set_shape(old.shape), state, new)
        write = tuple(array.write(time, each) for array, each in zip(write, found, strict=True))
        return time + 1, new, write

    _, state, write = tf.while_loop(
        lambda time, *_: time < steps,
        body,
        (tf.constant(0), state, write),
        maximum_iterations=steps,
    )
    found = tuple(array.stack() for array in write)
    for each in found:
        each.set_shape([length, *each.shape[1:]])
    return found, state
