"""Adam with decoupled weight decay."""

import dataclasses
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import require_not_negative
from keras_transformer.trainer.optimizers.adam import Adam
from keras_transformer.trainer.optimizers.registry import LearningRate, register_optimizer
from keras_transformer.trainer.section import setting

if TYPE_CHECKING:
    import keras


@register_optimizer("adamw")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """AdamW (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization").

    Args:
        beta_1: Decay rate of the first moment, in [0, 1). Default 0.9.
        beta_2: Decay rate of the second moment, in [0, 1). Default 0.98.
        epsilon: Positive number, added to the square root of the second moment. Default 1e-9.
        weight_decay: Each step multiplies weights by `1 - learning_rate * weight_decay`, except
            biases and normalizations. Default 0.
    """

    weight_decay: float = setting(0.0, require_not_negative)

    def build(self, learning_rate: LearningRate, **shared: Any) -> "keras.optimizers.Optimizer":
        from keras_transformer.trainer.fused_adam import FusedAdamW

        optimizer = FusedAdamW(learning_rate, **dataclasses.asdict(self), **shared)
        optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "scale"])
        return optimizer
