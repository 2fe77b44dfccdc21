"""Recurrent layers, one row and one step at a time, in float64."""

import numpy as np

from tests.references.mechanisms import reference_of


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()


def weights_of(layer):
    """The layer's own weights by name, in float64."""
    return {weight.name: np.asarray(weight, "float64") for weight in layer.weights}


def advance(cell, fed, state):
    """The state of one row after a step; `fed` is what the inputs add to the gates."""
    weights = weights_of(cell)
    recurrent = state[0] @ weights["recurrent_kernel"]
    if len(state) == 2:
        keep, enter, leave, proposed = np.split(fed + weights["bias"] + recurrent, 4)
        memory = sigmoid(keep) * state[1] + sigmoid(enter) * np.tanh(proposed)
        return sigmoid(leave) * np.tanh(memory), memory
    reset, keep, proposed = np.split(fed + weights["bias"], 3)
    of_reset, of_keep, of_proposed = np.split(recurrent, 3)
    reset, keep = sigmoid(reset + of_reset), sigmoid(keep + of_keep)
    proposed = np.tanh(proposed + reset * (of_proposed + weights["recurrent_bias"]))
    return (keep * state[0] + (1 - keep) * proposed,)


def run(cell, inputs):
    """Outputs of one row `[T, N]` from a state of zeros."""
    state, outputs = (np.zeros(cell.units),) * cell.parts, []
    for vector in inputs:
        state = advance(cell, vector @ weights_of(cell)["kernel"], state)
        outputs.append(state[0])
    return np.array(outputs).reshape(len(inputs), cell.units)


def bidirectional(layer, inputs):
    """Outputs of one row without padding."""
    backward = run(layer.backward, inputs[::-1])[::-1]
    return np.concatenate([run(layer.forward, inputs), backward], axis=-1)


def attention_recurrence(layer, inputs, memory):
    """Outputs `[T, M]` and weights `[T, S]` of one row without padding."""
    weights, bridge = weights_of(layer), weights_of(layer.bridge)
    made = np.tanh(memory.mean(axis=0) @ bridge["kernel"] + bridge["bias"])
    parts = np.split(made, len(layer.cells) * layer.cells[0].parts)
    each = layer.cells[0].parts
    states = [tuple(parts[i * each : (i + 1) * each]) for i in range(len(layer.cells))]
    attentional, outputs, attention = np.zeros(layer.hidden_dim), [], []
    mark, coverage = weights.get("coverage_mark", np.zeros(layer.hidden_dim)), np.zeros(len(memory))
    for t, vector in enumerate(inputs):
        fed = vector @ weights_of(layer.cells[0])["kernel"] + attentional @ weights["feed_kernel"]
        for i, cell in enumerate(layer.cells):
            if i:
                fed = states[i - 1][0] @ weights_of(cell)["kernel"]
            states[i] = advance(cell, fed, states[i])
        query = states[-1][0]
        marked = memory + np.outer(coverage, mark)
        context, seen = attend(layer.mechanism, query, marked, memory, t)
        coverage = coverage + seen
        attentional = np.tanh(np.concatenate([context, query]) @ weights["attentional_kernel"])
        attention.append(seen)
        outputs.append(attentional)
    return np.array(outputs), np.array(attention)


def attend(mechanism, query, key, value, position):
    """Context `[M]` and weights `[S]` of one query `[M]` and keys and values `[S, M]`."""
    query, key, value = query[None, None, None], key[None, None], value[None, None]
    visible = np.ones((1, 1, 1, key.shape[2]), bool)
    formula = reference_of(mechanism.registered_name)
    context, weights = formula(query, key, value, visible, position, weights_of(mechanism))
    return context[0, 0, 0], weights[0, 0, 0]
