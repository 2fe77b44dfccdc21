"""What recurrent layers ask of a cell, and the registry of those that answer."""

import keras
import tensorflow as tf

from keras_transformer.checks import (
    require_choice,
    require_known_width,
    require_positive_integer,
)
from keras_transformer.layers.registry import register

CELLS = {}


def register_cell(name):
    """Decorator: makes a `RecurrentCell` known by `name` to layers, recipes and tests."""
    return register(CELLS, name)


def make_cell(cell, units, **kwargs):
    """Returns a new cell of the registered name."""
    return CELLS[require_choice("cell", cell, CELLS)](units, **kwargs)


class RecurrentCell(keras.layers.Layer):
    """Base of the cells: one step of a recurrent network, cut where time does not matter.

    What inputs add to the gates depends on no earlier step: `project` makes it for all steps at
    once. `advance` does the rest, step by step. Both take the weights from `read`, once for all
    steps. Those of two cells, stacked, run both directions in one loop.

    A cell is one file in this folder: it registers a name, says how many gates and states it has,
    and implements `advance`.

    Args:
        units: U, the size of a state.

    Call arguments:
        inputs: `[B, N]`, of one step.
        state: a tuple of `[B, U]`, of which the first is the output.

    Returns:
        the state after the step, a tuple alike.
    """

    #: The name it is registered by.
    registered_name = None
    #: How many vectors of U the inputs are projected to.
    gates = None
    #: How many tensors a state has.
    parts = None

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = require_positive_integer("units", units)

    def build(self, inputs_shape, state_shape=None):
        width, size = require_known_width("inputs", inputs_shape), self.gates * self.units
        self.kernel = self.add_weight(name="kernel", shape=(width, size))
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, size), initializer="orthogonal"
        )
        self.bias = self.add_weight(name="bias", shape=(size,), initializer=self.initial_bias)
        self.built = True

    def initial_bias(self, shape, dtype=None):
        """What the bias `[gates·U]` begins with."""
        return tf.zeros(shape, dtype)

    def read(self):
        """The weights that `project` and `advance` take, by name, as tensors.

        Biases are `[1, gates·U]`, so that stacked ones go with stacked rows.
        """
        names = {"kernel": self.kernel, "recurrent_kernel": self.recurrent_kernel}
        weights = {name: tf.cast(weight, self.compute_dtype) for name, weight in names.items()}
        return {**weights, "bias": tf.cast(self.bias, self.compute_dtype)[None]}

    def project(self, inputs, weights):
        """What inputs `[…, N]` add to the gates, `[…, gates·U]`."""
        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
        # Two dimensions: the gradient of a three-dimensional product is built row by row.
        projected = tf.matmul(rows, weights["kernel"]) + weights["bias"]
        shape = tf.concat([tf.shape(inputs)[:-1], [self.gates * self.units]], axis=0)
        projected = tf.reshape(projected, shape)
        return tf.ensure_shape(projected, [*inputs.shape[:-1], self.gates * self.units])

    def advance(self, projected, state, weights):
        """The state after a step.

        Args:
            projected: `[B, gates·U]`, from `project`; or `[D, B, gates·U]` for D directions.
            state: a tuple of `[B, U]` (or `[D, B, U]`).
            weights: from `read`, stacked for D directions.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `advance`.")

    def call(self, inputs, state):
        weights = self.read()
        return self.advance(self.project(inputs, weights), state, weights)

    def compute_output_spec(self, inputs, state):
        shape = (*inputs.shape[:-1], self.units)
        return tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for _ in range(self.parts))

    def get_config(self):
        return {**super().get_config(), "units": self.units}
