"""Recurrent cells, a loop over time, and the bidirectional recurrent layer."""

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_choice,
    require_even,
    require_known_dim,
    require_positive_integer,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.registry import Kind, register
from keras_transformer._utils.types import Shape

#: The registered cells by name.
CELLS: dict[str, type["RecurrentCell"]] = {}

#: Tensors of one state, or of one step.
States: TypeAlias = tuple[tf.Tensor, ...]


def register_cell(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a `RecurrentCell` by `name`."""
    return register(CELLS, name)


def make_cell(cell: str, units: int, **kwargs: Any) -> "RecurrentCell":
    """Returns a new cell of a registered name with states of size `units`."""
    return CELLS[require_choice("cell", cell, CELLS)](units, **kwargs)


class RecurrentCell(ConfiguredLayer):
    """Base of the cells: one step of a recurrent network.

    `project_inputs` computes the part that depends on no previous step, for all steps at once;
    `step` computes the rest, in a loop. Both take the weights from `read_weights`, which is called
    once for all steps. The stacked weights of two cells run both directions in one loop.

    A cell registers a name, declares its numbers of gates and states, and implements `step`.

    Args:
        units: Integer. Size U of a state.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Inputs of one step, `[B, N]`.
        state: Tuple of `[B, U]`, of which the first is the output. The new state is returned.
    """

    #: Name by which the cell is registered.
    registered_name: ClassVar[str | None] = None
    #: Number of vectors of size U to which the inputs are projected.
    num_gates: ClassVar[int]
    #: Number of tensors in a state.
    num_states: ClassVar[int]

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units: int = require_positive_integer("units", units)

    def build(self, inputs_shape: Shape, state_shape: Any = None) -> None:
        inputs_dim = require_known_dim("inputs", inputs_shape)
        size = self.num_gates * self.units
        self.kernel: keras.Variable = self.new_weight("kernel", (inputs_dim, size))
        self.recurrent_kernel: keras.Variable = self.new_weight(
            "recurrent_kernel", (self.units, size), "orthogonal"
        )
        self.bias: keras.Variable = self.new_weight("bias", (size,), self.initial_bias)

    def initial_bias(self, shape: Shape, dtype: Any = None) -> tf.Tensor:
        """Returns the initial bias `[num_gates·U]`."""
        return tf.zeros(shape, dtype)

    def read_weights(self) -> dict[str, tf.Tensor]:
        """Returns the weights as tensors by name; biases are `[1, num_gates·U]`, for stacking."""
        names = {"kernel": self.kernel, "recurrent_kernel": self.recurrent_kernel}
        weights = {name: tf.cast(weight, self.compute_dtype) for name, weight in names.items()}
        return {**weights, "bias": tf.cast(self.bias, self.compute_dtype)[None]}

    def project_inputs(self, inputs: tf.Tensor, weights: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the part of the gates that inputs `[…, N]` add, `[…, num_gates·U]`."""
        rows, size = tf.reshape(inputs, [-1, inputs.shape[-1]]), self.num_gates * self.units
        # Two dimensions: the gradient of a three-dimensional product is built row by row.
        projected = tf.matmul(rows, weights["kernel"]) + weights["bias"]
        projected = tf.reshape(projected, tf.concat([tf.shape(inputs)[:-1], [size]], axis=0))
        return tf.ensure_shape(projected, [*inputs.shape[:-1], size])

    def step(self, projected: tf.Tensor, state: States, weights: dict[str, tf.Tensor]) -> States:
        """Returns the state after a step; all arguments may be stacked for D directions.

        Args:
            projected: `[B, num_gates·U]` or `[D, B, num_gates·U]`, from `project_inputs`.
            state: Tuple of `[B, U]` or of `[D, B, U]`.
            weights: Result of `read_weights`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `step`.")

    def call(self, inputs: tf.Tensor, state: States) -> States:
        weights = self.read_weights()
        return self.step(self.project_inputs(inputs, weights), state, weights)

    def compute_output_spec(self, inputs: Any, state: Any) -> tuple[keras.KerasTensor, ...]:
        shapes = [(*inputs.shape[:-1], self.units)] * self.num_states
        return tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)


@register_cell("gru")
@keras.saving.register_keras_serializable(package="keras_transformer")
class GRUCell(RecurrentCell):
    """A gated recurrent unit. Its state is one tensor, the output.

    Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for Statistical
    Machine Translation", section 2.3. As by default in Keras, the reset gate is applied after the
    matrix product with the state, so that a step needs only one product.

    Args:
        units: Integer. Size of the state.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> GRUCell(16)(tf.zeros([2, 8]), (tf.zeros([2, 16]),))[0].shape
    TensorShape([2, 16])
    """

    num_gates = 3
    num_states = 1

    def build(self, inputs_shape: Shape, state_shape: Any = None) -> None:
        super().build(inputs_shape, state_shape)
        self.recurrent_bias: keras.Variable = self.new_weight(
            "recurrent_bias", (self.units,), "zeros"
        )

    def read_weights(self) -> dict[str, tf.Tensor]:
        bias = tf.cast(self.recurrent_bias, self.compute_dtype)[None]
        return {**super().read_weights(), "recurrent_bias": bias}

    def step(self, projected: tf.Tensor, state: States, weights: dict[str, tf.Tensor]) -> States:
        (output,) = state
        sizes = [2 * self.units, self.units]
        recurrent = tf.matmul(output, weights["recurrent_kernel"])  # [B, 3·U]
        gates_of_inputs, candidate_of_inputs = tf.split(projected, sizes, axis=-1)
        gates_of_state, candidate_of_state = tf.split(recurrent, sizes, axis=-1)
        reset, update = tf.split(tf.sigmoid(gates_of_inputs + gates_of_state), 2, axis=-1)
        candidate_of_state += weights["recurrent_bias"]
        candidate = tf.tanh(candidate_of_inputs + reset * candidate_of_state)
        return (candidate + update * (output - candidate),)


@register_cell("lstm")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LSTMCell(RecurrentCell):
    """A long short-term memory cell. Its state is two tensors, the output and the cell state.

    Hochreiter & Schmidhuber 1997, "Long Short-Term Memory", with the forget gate of Gers et al.
    2000, "Learning to Forget", whose bias is initialized with 1 (Jozefowicz et al. 2015, "An
    Empirical Exploration of Recurrent Network Architectures").

    Args:
        units: Integer. Size of the output and of the cell state.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> inputs, state = tf.zeros([2, 8]), (tf.zeros([2, 16]), tf.zeros([2, 16]))
    >>> LSTMCell(16)(inputs, state)[0].shape
    TensorShape([2, 16])
    """

    num_gates = 4
    num_states = 2

    def initial_bias(self, shape: Shape, dtype: Any = None) -> tf.Tensor:
        units = self.units
        return tf.concat([tf.ones([units], dtype), tf.zeros([3 * units], dtype)], axis=0)

    def step(self, projected: tf.Tensor, state: States, weights: dict[str, tf.Tensor]) -> States:
        output, cell_state = state
        gates = projected + tf.matmul(output, weights["recurrent_kernel"])  # [B, 4·U]
        # One sigmoid for all three gates: each operation in a loop has a cost.
        sigmoid_gates, candidate = tf.split(gates, [3 * self.units, self.units], axis=-1)
        forget, enter, leave = tf.split(tf.sigmoid(sigmoid_gates), 3, axis=-1)  # each [B, U]
        cell_state = forget * cell_state + enter * tf.tanh(candidate)
        return leave * tf.tanh(cell_state), cell_state


def scan(
    step: Callable[[Any, States, Any], tuple[States, Any]],
    inputs: States,
    state: Any,
    output_dtypes: list[Any],
) -> tuple[States, Any]:
    """Runs a step over a sequence and returns all outputs, `[T, …]` each, and the last state.

    Args:
        step: Function `(time, inputs at that time, state) -> (tuple of outputs, state)`.
        inputs: Tuple of tensors `[T, …]`.
        state: Nest of tensors, which keeps its structure and shapes.
        output_dtypes: The dtypes of the outputs.

    >>> def add(time, inputs, total):
    ...     return (total + inputs[0],), total + inputs[0]
    >>> (sums,), _ = scan(add, (tf.constant([1, 2, 3]),), tf.constant(0), [tf.int32])
    >>> sums.numpy().tolist()
    [1, 3, 6]
    """
    length = inputs[0].shape[0]
    if length == 1:  # no loop: token-by-token decoding is faster
        outputs, state = step(0, tuple(each[0] for each in inputs), state)
        return tuple(each[None] for each in outputs), state
    steps = tf.shape(inputs[0])[0]
    # Arrays: the gradient of a slice would be as long as the whole sequence at each step.
    read = [tf.TensorArray(each.dtype, steps).unstack(each) for each in inputs]
    write = tuple(tf.TensorArray(dtype, steps) for dtype in output_dtypes)

    def body(time: tf.Tensor, state: Any, write: tuple[Any, ...]) -> tuple[Any, ...]:
        outputs, new = step(time, tuple(array.read(time) for array in read), state)
        tf.nest.map_structure(lambda old, new: new.set_shape(old.shape), state, new)
        write = tuple(array.write(time, each) for array, each in zip(write, outputs, strict=True))
        return time + 1, new, write

    start = tf.constant(0), state, write
    _, state, write = tf.while_loop(
        lambda time, *_: time < steps, body, start, maximum_iterations=steps
    )
    outputs = tuple(array.stack() for array in write)
    for each in outputs:
        each.set_shape([length, *each.shape[1:]])
    return outputs, state


@keras.saving.register_keras_serializable(package="keras_transformer")
class BidirectionalRNN(ConfiguredLayer):
    """Two recurrent cells, one from left to right and one from right to left, concatenated.

    Schuster & Paliwal 1997, "Bidirectional Recurrent Neural Networks". Both run in one loop.

    Masking: where the implicit Keras mask of the inputs is False, a cell keeps its state.

    Args:
        hidden_dim: Even integer. Size M of the outputs, half of it from each direction.
        cell: "lstm" or "gru". Default "lstm".
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, S, N]`.
        mask: Boolean `[B, S]`. Keras passes the implicit mask.

    >>> inputs = keras.Input((None, 32))
    >>> BidirectionalRNN(64, cell="gru")(inputs).shape
    (None, None, 64)
    """

    def __init__(self, hidden_dim: int, cell: str = "lstm", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive_integer("hidden_dim", hidden_dim)
        self.hidden_dim: int = require_even("hidden_dim", int(hidden_dim))
        self.cell: str = cell
        arguments = {"units": self.hidden_dim // 2, "dtype": self.dtype_policy}
        self.forward: RecurrentCell = make_cell(cell, name="forward", **arguments)
        self.backward: RecurrentCell = make_cell(cell, name="backward", **arguments)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self.forward.build(inputs_shape)
        self.backward.build(inputs_shape)

    def call(self, inputs: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        inputs = tf.transpose(inputs, [1, 0, 2])  # [S, B, N]
        weights = [cell.read_weights() for cell in (self.forward, self.backward)]
        projected = _stack_directions(
            self.forward.project_inputs(inputs, weights[0]),
            self.backward.project_inputs(inputs, weights[1]),
        )  # [S, 2, B, G·U]
        step_inputs = (projected,)
        if mask is not None:
            is_token = tf.transpose(mask)[..., None]  # [S, B, 1]
            step_inputs = (projected, _stack_directions(is_token, is_token))
        stacked = tf.nest.map_structure(lambda *pair: tf.stack(pair), *weights)

        def step(time: Any, step_inputs: States, state: States) -> tuple[States, States]:
            new = self.forward.step(step_inputs[0], state, stacked)
            if mask is not None:
                pairs = zip(new, state, strict=True)
                new = tuple(tf.where(step_inputs[1], *pair) for pair in pairs)
            return new[:1], new

        units = self.hidden_dim // 2
        zeros = tf.zeros([2, tf.shape(inputs)[1], units], projected.dtype)
        zeros = tf.ensure_shape(zeros, [2, inputs.shape[1], units])
        state = (zeros,) * self.forward.num_states
        (outputs,), _ = scan(step, step_inputs, state, [projected.dtype])  # [S, 2, B, U]
        outputs = tf.concat([outputs[:, 0], tf.reverse(outputs[:, 1], [0])], axis=-1)
        return tf.transpose(outputs, [1, 0, 2])  # [B, S, M]

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape[:-1], self.hidden_dim)


def _stack_directions(forward: tf.Tensor, backward: tf.Tensor) -> tf.Tensor:
    """Returns two sequences `[S, …]` as `[S, 2, …]`, the second in reverse order."""
    return tf.stack([forward, tf.reverse(backward, [0])], axis=1)
