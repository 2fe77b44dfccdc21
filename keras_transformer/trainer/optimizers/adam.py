"""Adam as Vaswani et al. 2017 configure it."""

import dataclasses
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import require_positive, require_rate
from keras_transformer.trainer.optimizers.registry import (
    LearningRate,
    OptimizerConfig,
    register_optimizer,
)
from keras_transformer.trainer.section import setting

if TYPE_CHECKING:
    import keras


@register_optimizer("adam")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(OptimizerConfig):
    """Adam (Kingma and Ba 2015). Defaults: Vaswani et al. 2017, "Attention Is All You Need", §5.3.

    Args:
        beta_1: Decay rate of the first moment, in [0, 1). Default 0.9.
        beta_2: Decay rate of the second moment, in [0, 1). Default 0.98.
        epsilon: Positive number, added to the square root of the second moment. Default 1e-9.
    """

    beta_1: float = setting(0.9, require_rate)
    beta_2: float = setting(0.98, require_rate)
    epsilon: float = setting(1e-9, require_positive)

    def build(self, learning_rate: LearningRate, **shared: Any) -> "keras.optimizers.Optimizer":
        from keras_transformer.trainer.fused_adam import FusedAdam

        return FusedAdam(learning_rate, **dataclasses.asdict(self), **shared)
