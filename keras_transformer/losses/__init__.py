"""Losses of sequence models."""

from keras_transformer.losses.cross_entropy import (
    TokenCrossEntropy,
    TokenTotals,
    token_cross_entropy,
    token_totals,
    token_weights,
)

__all__ = [
    "TokenCrossEntropy",
    "TokenTotals",
    "token_cross_entropy",
    "token_totals",
    "token_weights",
]
