"""Recurrent layers in NumPy, one row and one step at a time, in float64."""

import numpy as np

from tests.references.mechanisms import reference_of


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()


def weights_of(layer):
    """Returns the layer's own weights by name, in float64."""
    return {weight.name: np.asarray(weight, "float64") for weight in layer.weights}


def step(cell, projected, state):
    """Returns the state of one row after a step, from the projected inputs `[num_gates·U]`."""
    weights = weights_of(cell)
    recurrent = state[0] @ weights["recurrent_kernel"]
    if len(state) == 2:
        forget, enter, leave, candidate = np.split(projected + weights["bias"] + recurrent, 4)
        cell_state = sigmoid(forget) * state[1] + sigmoid(enter) * np.tanh(candidate)
        return sigmoid(leave) * np.tanh(cell_state), cell_state
    reset, update, candidate = np.split(projected + weights["bias"], 3)
    of_reset, of_update, of_candidate = np.split(recurrent, 3)
    reset, update = sigmoid(reset + of_reset), sigmoid(update + of_update)
    candidate = np.tanh(candidate + reset * (of_candidate + weights["recurrent_bias"]))
    return (update * state[0] + (1 - update) * candidate,)


def run(cell, inputs):
    """Returns the outputs of one row `[T, N]` from a state of zeros."""
    state, outputs = (np.zeros(cell.units),) * cell.num_states, []
    for vector in inputs:
        state = step(cell, vector @ weights_of(cell)["kernel"], state)
        outputs.append(state[0])
    return np.array(outputs).reshape(len(inputs), cell.units)


def bidirectional(layer, inputs):
    """Returns the outputs of one row without padding."""
    backward = run(layer.backward, inputs[::-1])[::-1]
    return np.concatenate([run(layer.forward, inputs), backward], axis=-1)


def attention_rnn(layer, inputs, source):
    """Returns outputs `[T, M]` and attention weights `[T, S]` of one row without padding."""
    weights, initial = weights_of(layer), weights_of(layer.initial_projection)
    projected = np.tanh(source.mean(axis=0) @ initial["kernel"] + initial["bias"])
    each = layer.cells[0].num_states
    parts = np.split(projected, len(layer.cells) * each)
    states = [tuple(parts[i * each : (i + 1) * each]) for i in range(len(layer.cells))]
    attentional, outputs, attention = np.zeros(layer.hidden_dim), [], []
    coverage_vector = weights.get("coverage_vector", np.zeros(layer.hidden_dim))
    coverage = np.zeros(len(source))
    for t, vector in enumerate(inputs):
        fed = vector @ weights_of(layer.cells[0])["kernel"] + attentional @ weights["feed_kernel"]
        for i, cell in enumerate(layer.cells):
            if i:
                fed = states[i - 1][0] @ weights_of(cell)["kernel"]
            states[i] = step(cell, fed, states[i])
        query = states[-1][0]
        keys = source + np.outer(coverage, coverage_vector)
        context, attended = attend(layer.mechanism, query, keys, source, t)
        coverage = coverage + attended
        attentional = np.tanh(np.concatenate([context, query]) @ weights["attentional_kernel"])
        attention.append(attended)
        outputs.append(attentional)
    return np.array(outputs), np.array(attention)


def attend(mechanism, query, key, value, position):
    """Returns context `[M]` and weights `[S]` of a query `[M]` and keys and values `[S, M]`."""
    query, key, value = query[None, None, None], key[None, None], value[None, None]
    visible = np.ones((1, 1, 1, key.shape[2]), bool)
    formula = reference_of(mechanism.registered_name)
    context, weights = formula(query, key, value, visible, position, weights_of(mechanism))
    return context[0, 0, 0], weights[0, 0, 0]
