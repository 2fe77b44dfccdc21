"""Optimizer and schedule as a recipe describes them."""

import keras
import tensorflow as tf

from keras_transformer.schedules import CosineDecay, InverseSquareRootDecay, LinearDecay


class _OneOperation:
    """Mixed into Keras' Adam: TensorFlow's own kernel instead of a dozen operations a variable.

    The formula is the same (Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization", the
    more efficient order at the end of section 2), in one pass over gradient, moments and variable
    instead of ten.
    """

    def update_step(self, gradient, variable, learning_rate):
        # Mirrored moments are found by Keras' own way only.
        if self.amsgrad or self._distribution_strategy.num_replicas_in_sync > 1:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        number = tf.cast(self.iterations + 1, variable.dtype)

        def as_type(value):
            return tf.cast(value, variable.dtype)

        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(as_type(self.beta_1), number),
            beta2_power=tf.pow(as_type(self.beta_2), number),
            lr=as_type(learning_rate),
            beta1=as_type(self.beta_1),
            beta2=as_type(self.beta_2),
            epsilon=as_type(self.epsilon),
            grad=tf.cast(tf.convert_to_tensor(gradient), variable.dtype),
        )


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdam(_OneOperation, keras.optimizers.Adam):
    """`keras.optimizers.Adam`, faster on a CPU. Arguments: see there.

    >>> optimizer = FusedAdam(learning_rate=0.1)
    >>> variable = keras.Variable([1.0])
    >>> optimizer.apply([tf.constant([7.0])], [variable])
    >>> round(float(variable[0]), 4)
    0.9
    """


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdamW(_OneOperation, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW`, faster on a CPU. Arguments: see there.

    >>> optimizer = FusedAdamW(learning_rate=0.1, weight_decay=0.5)
    >>> variable = keras.Variable([1.0])
    >>> optimizer.apply([tf.constant([7.0])], [variable])
    >>> round(float(variable[0]), 4)
    0.85
    """


# Biases and the gains of normalizations are not weights that could grow too large.
_WITHOUT_DECAY = ("bias", "gamma", "beta", "scale")


def make_optimizer(training, hidden_dim, updates):
    """Makes the Keras optimizer of a recipe, for `fit` and for the loop.

    Args:
        training: the recipe's section.
        hidden_dim: of the model; the paper's learning rate depends on it.
        updates: how many there will be; some schedules end with them.
    """
    settings = {
        "learning_rate": make_schedule(training, hidden_dim, updates),
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


def make_schedule(training, hidden_dim, updates):
    """Makes the learning rate of a recipe: a schedule, or a number."""
    rate, warmup = training.learning_rate, training.warmup_steps
    if training.schedule == "constant":
        return rate
    if training.schedule == "inverse_square_root":
        if rate is None:
            return InverseSquareRootDecay.from_hidden_dim(hidden_dim, warmup)
        return InverseSquareRootDecay(rate, warmup)
    kind = {"cosine": CosineDecay, "linear": LinearDecay}[training.schedule]
    # A run that is shorter than its warm-up, such as a dry run, does not come to the fall.
    return kind(rate, warmup, max(updates, warmup + 1), training.final_rate)
