"""A recurrent layer that reads from both ends."""

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_choice,
    require_even,
    require_known_dim,
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
        hidden_dim, size = require_known_dim("inputs", inputs_shape), self.gates * self.units
        self.kernel = self.add_weight(name="kernel", shape=(hidden_dim, size))
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


@register_cell("gru")
@keras.saving.register_keras_serializable(package="keras_transformer")
class GatedRecurrentUnit(RecurrentCell):
    """A state that one gate updates, and another lets be forgotten in what is proposed.

    Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for Statistical
    Machine Translation", but for one thing: the reset gate acts on the state after its product with
    the weights, as in cuDNN, so that a step needs one product alone.

    Arguments and call arguments: see `RecurrentCell`. A state is an output.

    Example:

    >>> (output,) = GatedRecurrentUnit(16)(tf.zeros([2, 8]), (tf.zeros([2, 16]),))
    >>> output.shape
    TensorShape([2, 16])
    """

    gates = 3
    parts = 1

    def build(self, inputs_shape, state_shape=None):
        super().build(inputs_shape, state_shape)
        self.recurrent_bias = self.add_weight(
            name="recurrent_bias", shape=(self.units,), initializer="zeros"
        )

    def read(self):
        bias = tf.cast(self.recurrent_bias, self.compute_dtype)[None]
        return {**super().read(), "recurrent_bias": bias}

    def advance(self, projected, state, weights):
        (output,) = state
        sizes = [2 * self.units, self.units]
        recurrent = tf.matmul(output, weights["recurrent_kernel"])  # [B, 3·U]
        gates_of_inputs, proposed_by_inputs = tf.split(projected, sizes, axis=-1)
        gates_of_state, proposed_by_state = tf.split(recurrent, sizes, axis=-1)
        reset, keep = tf.split(tf.sigmoid(gates_of_inputs + gates_of_state), 2, axis=-1)
        proposed = tf.tanh(
            proposed_by_inputs + reset * (proposed_by_state + weights["recurrent_bias"])
        )
        return (proposed + keep * (output - proposed),)


@register_cell("lstm")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LongShortTermMemory(RecurrentCell):
    """A memory cell that gates let in, keep and let out.

    Hochreiter & Schmidhuber 1997, "Long Short-Term Memory", with the forget gate of Gers et al.
    2000, "Learning to Forget". That gate's bias begins at 1, so that a new cell keeps what it has
    (Jozefowicz et al. 2015, "An Empirical Exploration of Recurrent Network Architectures").

    Arguments and call arguments: see `RecurrentCell`. A state is an output and a memory.

    Example:

    >>> inputs, state = tf.zeros([2, 8]), (tf.zeros([2, 16]), tf.zeros([2, 16]))
    >>> output, memory = LongShortTermMemory(16)(inputs, state)
    >>> output.shape
    TensorShape([2, 16])
    """

    gates = 4
    parts = 2

    def initial_bias(self, shape, dtype=None):
        units = self.units
        return tf.concat([tf.ones([units], dtype), tf.zeros([3 * units], dtype)], axis=0)

    def advance(self, projected, state, weights):
        output, memory = state
        gates = projected + tf.matmul(output, weights["recurrent_kernel"])  # [B, 4·U]
        # One operation for the three that are gates; each is dear in a loop.
        opened, proposed = tf.split(gates, [3 * self.units, self.units], axis=-1)
        keep, enter, leave = tf.split(tf.sigmoid(opened), 3, axis=-1)  # each [B, U]
        memory = keep * memory + enter * tf.tanh(proposed)
        return leave * tf.tanh(memory), memory


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


@keras.saving.register_keras_serializable(package="keras_transformer")
class BidirectionalRecurrence(keras.layers.Layer):
    """Two cells, one from left to right and one from right to left, side by side.

    Schuster & Paliwal 1997, "Bidirectional Recurrent Neural Networks". Both run in one loop.

    Masking: where the implicit Keras mask of the inputs is False, a cell keeps its state, so that
    padding before or after a sequence is as if it were not there.

    Args:
        hidden_dim: M, the size of the outputs, half of it from each direction.
        cell: "lstm" or "gru".

    Call arguments:
        inputs: `[B, S, N]`.

    Returns:
        `[B, S, M]`.

    Example:

    >>> inputs = keras.Input((None, 32))
    >>> outputs = BidirectionalRecurrence(64, cell="gru")(inputs)
    >>> keras.Model(inputs, outputs).output_shape
    (None, None, 64)
    """

    def __init__(self, hidden_dim, cell="lstm", **kwargs):
        super().__init__(**kwargs)
        self.hidden_dim = require_even(
            "hidden_dim", require_positive_integer("hidden_dim", hidden_dim)
        )
        self.cell = cell
        self.forward, self.backward = (
            make_cell(cell, self.hidden_dim // 2, name=name, dtype=self.dtype_policy)
            for name in ("forward", "backward")
        )
        self.supports_masking = True

    def build(self, inputs_shape):
        self.forward.build(inputs_shape)
        self.backward.build(inputs_shape)
        self.built = True

    def call(self, inputs, mask=None):
        inputs = tf.transpose(inputs, [1, 0, 2])  # [S, B, N]
        weights = [cell.read() for cell in (self.forward, self.backward)]
        projected = _both_ways(
            self.forward.project(inputs, weights[0]), self.backward.project(inputs, weights[1])
        )  # [S, 2, B, G·U]
        given = (projected,)
        if mask is not None:
            is_token = tf.transpose(mask)[..., None]  # [S, B, 1]
            given = (projected, _both_ways(is_token, is_token))
        stacked = tf.nest.map_structure(lambda *pair: tf.stack(pair), *weights)

        def advance(time, given, state):
            new = self.forward.advance(given[0], state, stacked)
            if mask is not None:
                new = tuple(tf.where(given[1], *pair) for pair in zip(new, state, strict=True))
            return new[:1], new

        units = self.hidden_dim // 2
        zeros = tf.zeros([2, tf.shape(inputs)[1], units], projected.dtype)
        zeros = tf.ensure_shape(zeros, [2, inputs.shape[1], units])
        state = (zeros,) * self.forward.parts
        (outputs,), _ = run_over_time(advance, given, state, [projected.dtype])  # [S, 2, B, U]
        outputs = tf.concat([outputs[:, 0], tf.reverse(outputs[:, 1], [0])], axis=-1)
        return tf.transpose(outputs, [1, 0, 2])  # [B, S, M]

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.hidden_dim)

    def get_config(self):
        return {**super().get_config(), "hidden_dim": self.hidden_dim, "cell": self.cell}


def _both_ways(forward, backward):
    """Two sequences `[S, …]`, the second from its end, as `[S, 2, …]`."""
    return tf.stack([forward, tf.reverse(backward, [0])], axis=1)
