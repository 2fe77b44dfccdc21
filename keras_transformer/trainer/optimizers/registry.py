"""Registry of the optimizers that recipes can name.

A new optimizer is one file in this folder. It declares its hyperparameters and builds a Keras
optimizer:

    @register_optimizer("lion")
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Lion(OptimizerConfig):
        beta_1: float = setting(0.9, require_rate)

        def build(self, learning_rate, **shared):
            import keras

            return keras.optimizers.Lion(learning_rate, beta_1=self.beta_1, **shared)

The file is found automatically. It imports TensorFlow and Keras inside `build` only.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from keras_transformer._utils.registry import Kind, register

if TYPE_CHECKING:
    import keras

    LearningRate = float | keras.optimizers.schedules.LearningRateSchedule
else:
    LearningRate = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig(abc.ABC):
    """Hyperparameters of an optimizer: the base class of all members of `OPTIMIZERS`.

    Subclasses are frozen dataclasses whose fields, declared with `setting`, a recipe can set.
    Settings of every optimizer (learning rate, clipping, average of the weights) are not among
    them.
    """

    #: Name by which the optimizer is registered.
    registered_name: ClassVar[str]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = field.metadata["check"](field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    @abc.abstractmethod
    def build(self, learning_rate: LearningRate, **shared: Any) -> "keras.optimizers.Optimizer":
        """Builds the Keras optimizer.

        Args:
            learning_rate: A number or a Keras learning rate schedule.
            **shared: Arguments of every Keras optimizer, such as `global_clipnorm` and `use_ema`.
        """


OPTIMIZERS: dict[str, type[OptimizerConfig]] = {}


def register_optimizer(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers an `OptimizerConfig`, which recipes choose by `name`."""
    return register(OPTIMIZERS, name)
