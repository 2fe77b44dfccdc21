"""Adam with decoupled weight decay."""

import dataclasses
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import require_not_negative
from keras_transformer.trainer.optimizers.adam import Adam
from keras_transformer.trainer.optimizers.registry import LearningRate, register_optimizer
from keras_transformer.trainer.section import setting

if TYPE_CHECKING:
    import keras

# Decay regularizes weight matrices; biases and the parameters of normalizations are left alone.
_WITHOUT_DECAY = ("bias", "gamma", "beta", "scale")


@register_optimizer("adamw")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """AdamW (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization").

    Args:
        beta_1: Number in [0, 1). Decay rate of the first moment. Default 0.9.
        beta_2: Number in [0, 1). Decay rate of the second moment. Default 0.98.
        epsilon: Positive number. Added to the square root of the second moment. Default 1e-9.
        weight_decay: Number of at least 0. Each step multiplies weights by
            `1 - learning_rate * weight_decay`. Biases and normalizations have no decay. Default 0.
    """

    weight_decay: float = setting(0.0, require_not_negative)

    def build(self, learning_rate: LearningRate, **shared: Any) -> "keras.optimizers.Optimizer":
        from keras_transformer.trainer.fused_adam import FusedAdamW

        optimizer = FusedAdamW(learning_rate, **dataclasses.asdict(self), **shared)
        optimizer.exclude_from_weight_decay(var_names=_WITHOUT_DECAY)
        return optimizer
