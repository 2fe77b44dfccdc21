"""Optimizers that recipes can name, one per file. Importing this package imports no TensorFlow."""

from keras_transformer._utils.registry import import_members
from keras_transformer.trainer.optimizers.registry import (
    OPTIMIZERS,
    OptimizerConfig,
    register_optimizer,
)

import_members(__name__, __path__)

__all__ = ["OPTIMIZERS", "OptimizerConfig", "register_optimizer"]
