"""All variables that a training changes, by names that are the same in every process."""

import contextlib

import numpy as np

from keras_transformer.errors import UserError

WEIGHTS, SEEDS, OPTIMIZER = "weights", "seeds", "optimizer"


def training_variables(model):
    """Returns the variables of a compiled model that a run must keep, by name.

    They are the weights, the states of the dropouts' random generators (which no Keras file holds),
    and those of the optimizer: its counters and moments, the moving average of the weights, and
    the scale of the loss if it has one.
    """
    weights = model.weights
    known = {id(variable) for variable in [*weights, *model.metrics_variables]}
    seeds = [variable for variable in model.variables if id(variable) not in known]
    groups = {WEIGHTS: weights, SEEDS: seeds, OPTIMIZER: model.optimizer.variables}
    return {
        f"{group}/{number:04d}/{variable.name}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def assign_variables(variables, values, where):
    """Gives variables the values of the same names.

    Args:
        variables: by name.
        values: arrays by name.
        where: they come from, for messages.
    """
    missing = sorted(set(variables) ^ set(values))
    if missing:
        raise UserError(
            f"{where}: is of another model or optimizer; {missing[0]!r} and {len(missing) - 1} "
            "more are in one of them only. Start a new run in another directory."
        )
    for name, variable in variables.items():
        if tuple(variable.shape) != values[name].shape:
            raise UserError(
                f"{where}: is of another model; {name} has shape {values[name].shape}, not "
                f"{tuple(variable.shape)}. Start a new run in another directory."
            )
        variable.assign(values[name])


def mean_weights(checkpoints):
    """Returns the mean of the weights of several `Checkpoint`s, arrays by name.

    Vaswani et al. 2017, "Attention Is All You Need", §6.1, average the last 5 or 20.
    """
    totals = {}
    for checkpoint in checkpoints:
        for name, value in checkpoint.tensors(f"{WEIGHTS}/").items():
            totals[name] = totals.get(name, 0.0) + value.astype(np.float64)
    return {name: (total / len(checkpoints)).astype(np.float32) for name, total in totals.items()}


@contextlib.contextmanager
def moving_averages(model):
    """Inside, the model has the moving average of its weights that its optimizer has kept."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    averages = [variable.numpy() for variable in optimizer._model_variables_moving_average]
    trained = [variable.numpy() for variable in model.trainable_variables]
    try:
        _assign(model.trainable_variables, averages)
        yield
    finally:
        _assign(model.trainable_variables, trained)


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
