"""Metrics of token predictions (Keras) and of generated texts (a registry, one file per metric).

The Keras metrics are imported on first use (PEP 562): the text metrics need no TensorFlow.
"""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily
from keras_transformer._utils.registry import import_members
from keras_transformer.metrics.registry import (
    TEXT_METRICS,
    SacrebleuMetric,
    TextMetric,
    metric_direction,
    register_text_metric,
)

if TYPE_CHECKING:
    from keras_transformer.metrics.token_metrics import Perplexity, TokenAccuracy, TokenMean

__all__ = [
    "TEXT_METRICS",
    "Perplexity",
    "SacrebleuMetric",
    "TextMetric",
    "TokenAccuracy",
    "TokenMean",
    "metric_direction",
    "register_text_metric",
]

import_members(__name__, __path__, skip=["token_metrics"])

import_lazily(__name__, {"token_metrics": "Perplexity TokenAccuracy TokenMean"})
