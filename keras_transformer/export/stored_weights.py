"""Weights that a model's layers read in place of their own."""

import keras
import tensorflow as tf

#: Weights of so many bytes at most can be constants. All but the table of a narrow model are; of a
#: wide one its biases are, so that a graph, and every shape that XLA compiles it for, stays small.
LARGEST_CONSTANT = 2**18


def stored_weights(model, stored, as_constants=False):
    """A context in which the layers of a model read other variables than their own.

    Args:
        model: a Keras model.
        stored: a `tf.Variable` for each of `model.weights`, of any floating-point type.
        as_constants: whether small weights are constants of the graph that is traced. XLA looks at
            every variable before each call, which takes longer than a short sentence's encoder.
    """
    weights = zip(model.weights, stored, strict=True)
    return keras.StatelessScope(
        state_mapping=[
            (weight, tf.cast(_constant(value) if as_constants else value, weight.dtype))
            for weight, value in weights
        ]
    )


def _constant(variable):
    """The present value of a variable if it is small, else the variable."""
    if variable.dtype.size * variable.shape.num_elements() > LARGEST_CONSTANT:
        return variable
    with tf.init_scope():  # out of the graph, where there is a value
        value = variable.numpy()
    return tf.constant(value)
