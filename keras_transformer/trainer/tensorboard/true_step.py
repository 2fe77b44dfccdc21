"""How many updates a model has had: the step of everything that TensorBoard shows."""


def training_optimizer(model):
    """Returns the optimizer whose updates are counted.

    One that scales the loss has the count and the rate of the one inside, which leaves out updates
    whose gradients have overflowed.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise ValueError(
            f"The model '{model.name}' has no optimizer, whose updates are the steps in "
            "TensorBoard. Call model.compile(optimizer, loss) first."
        )
    return optimizer


def true_step(model):
    """Returns the number of updates made, whatever epochs, restarts and batches there were.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> true_step(model)
    0
    """
    return int(training_optimizer(model).iterations.numpy())
