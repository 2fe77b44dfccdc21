"""Losses of sequence models."""

from keras_transformer.losses.cross_entropy import TokenCrossEntropy

__all__ = ["TokenCrossEntropy"]
