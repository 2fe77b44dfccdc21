"""Training by recipes. Public names are imported on first use (PEP 562)."""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily

if TYPE_CHECKING:
    from keras_transformer.trainer.attention_maps import AttentionMaps
    from keras_transformer.trainer.callbacks import (
        EmbeddingProjector,
        HyperParameters,
        ProfileSteps,
        SampleTranslations,
        TrainingScalars,
        WeightHistograms,
    )
    from keras_transformer.trainer.config import Recipe
    from keras_transformer.trainer.fused_adam import FusedAdam, FusedAdamW
    from keras_transformer.trainer.loggers import LOGGERS, Logger, register_logger
    from keras_transformer.trainer.optimizers import OPTIMIZERS, OptimizerConfig, register_optimizer
    from keras_transformer.trainer.recipes import load_recipe
    from keras_transformer.trainer.signals import TrainingFailed, TrainingStopped
    from keras_transformer.trainer.training import train
    from keras_transformer.trainer.training_loop import StepRecord, TrainingLoop, ValidationLoop
    from keras_transformer.trainer.training_result import TrainingResult
    from keras_transformer.trainer.translation_quality import TranslationQuality

import_lazily(
    __name__,
    {
        "attention_maps": "AttentionMaps",
        "callbacks": "EmbeddingProjector HyperParameters ProfileSteps SampleTranslations "
        "TrainingScalars WeightHistograms",
        "config": "Recipe",
        "fused_adam": "FusedAdam FusedAdamW",
        "loggers": "LOGGERS Logger register_logger",
        "optimizers": "OPTIMIZERS OptimizerConfig register_optimizer",
        "recipes": "load_recipe",
        "signals": "TrainingFailed TrainingStopped",
        "training": "train",
        "training_loop": "StepRecord TrainingLoop ValidationLoop",
        "training_result": "TrainingResult",
        "translation_quality": "TranslationQuality",
    },
)

__all__ = [
    "LOGGERS",
    "OPTIMIZERS",
    "AttentionMaps",
    "EmbeddingProjector",
    "FusedAdam",
    "FusedAdamW",
    "HyperParameters",
    "Logger",
    "OptimizerConfig",
    "ProfileSteps",
    "Recipe",
    "SampleTranslations",
    "StepRecord",
    "TrainingFailed",
    "TrainingLoop",
    "TrainingResult",
    "TrainingScalars",
    "TrainingStopped",
    "TranslationQuality",
    "ValidationLoop",
    "WeightHistograms",
    "load_recipe",
    "register_logger",
    "register_optimizer",
    "train",
]
