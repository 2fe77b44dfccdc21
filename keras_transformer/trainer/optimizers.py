"""Optimizer and schedule as a recipe describes them."""

from keras_transformer.schedules import Cosine, InverseSquareRoot, Linear
from keras_transformer.trainer.fused_adam import FusedAdam, FusedAdamW

# Biases and the gains of normalisations are not weights that could grow too large.
_WITHOUT_DECAY = ("bias", "gamma", "beta", "scale")


def make_optimizer(training, width, updates):
    """Makes the Keras optimizer of a recipe, for `fit` and for the loop.

    Args:
        training: the recipe's section.
        width: of the model; the paper's learning rate depends on it.
        updates: how many there will be; some schedules end with them.
    """
    settings = {
        "learning_rate": make_schedule(training, width, updates),
        "beta_1": training.beta_1,
        "beta_2": training.beta_2,
        "epsilon": training.epsilon,
        "global_clipnorm": training.clip_norm,
    }
    if training.ema:
        settings |= {"use_ema": True, "ema_momentum": training.ema}
    if training.optimizer == "adam":
        return FusedAdam(**settings)
    optimizer = FusedAdamW(**settings, weight_decay=training.weight_decay)
    optimizer.exclude_from_weight_decay(var_names=_WITHOUT_DECAY)
    return optimizer


def make_schedule(training, width, updates):
    """Makes the learning rate of a recipe: a schedule, or a number."""
    rate, warmup = training.learning_rate, training.warmup_steps
    if training.schedule == "constant":
        return rate
    if training.schedule == "inverse_square_root":
        if rate is None:
            return InverseSquareRoot.from_width(width, warmup)
        return InverseSquareRoot(rate, warmup)
    kind = {"cosine": Cosine, "linear": Linear}[training.schedule]
    # A run that is shorter than its warm-up, such as a dry run, does not come to the fall.
    return kind(rate, warmup, max(updates, warmup + 1), training.final_rate)
