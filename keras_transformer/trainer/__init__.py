"""The compiled loop, checkpoints and resume, distribution, TensorBoard."""

from keras_transformer.trainer.recipe import Recipe, load_recipe
from keras_transformer.trainer.training import train
from keras_transformer.trainer.training_failed import TrainingFailed
from keras_transformer.trainer.training_loop import TrainingLoop, UpdateRecord
from keras_transformer.trainer.training_result import TrainingResult
from keras_transformer.trainer.training_stopped import TrainingStopped
from keras_transformer.trainer.translation_quality import TranslationQuality
from keras_transformer.trainer.validation_loop import ValidationLoop

__all__ = [
    "Recipe",
    "TrainingFailed",
    "TrainingLoop",
    "TrainingResult",
    "TrainingStopped",
    "TranslationQuality",
    "UpdateRecord",
    "ValidationLoop",
    "load_recipe",
    "train",
]
