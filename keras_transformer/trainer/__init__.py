"""The compiled loop, checkpoints and resume, distribution, TensorBoard."""

from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.recipes import load_recipe
from keras_transformer.trainer.signals import TrainingFailed, TrainingStopped
from keras_transformer.trainer.training import train
from keras_transformer.trainer.training_loop import TrainingLoop, UpdateRecord, ValidationLoop
from keras_transformer.trainer.training_result import TrainingResult
from keras_transformer.trainer.translation_quality import TranslationQuality

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
