"""TensorBoard as a translation workbench: Keras callbacks for `model.fit` and for the loop."""

from keras_transformer.trainer.tensorboard.attention_maps import AttentionMaps
from keras_transformer.trainer.tensorboard.embedding_projector import EmbeddingProjector
from keras_transformer.trainer.tensorboard.hyper_parameters import HyperParameters
from keras_transformer.trainer.tensorboard.profile_steps import ProfileSteps
from keras_transformer.trainer.tensorboard.sample_translations import SampleTranslations
from keras_transformer.trainer.tensorboard.training_scalars import TrainingScalars
from keras_transformer.trainer.tensorboard.weight_histograms import WeightHistograms
from keras_transformer.trainer.tensorboard.writers import close_all, event_writer, flush_all

__all__ = [
    "AttentionMaps",
    "EmbeddingProjector",
    "HyperParameters",
    "ProfileSteps",
    "SampleTranslations",
    "TrainingScalars",
    "WeightHistograms",
    "close_all",
    "event_writer",
    "flush_all",
]
