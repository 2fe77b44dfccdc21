"""Comparisons of models under one budget: planning, training, results, reports."""

from keras_transformer.analysis.compare.comparison import (
    Budget,
    Comparison,
    built_in_variants,
    load_comparison,
)
from keras_transformer.analysis.compare.results import Measure, ModelResult, Results
from keras_transformer.analysis.compare.running import ComparisonStopped, compare

__all__ = [
    "Budget",
    "Comparison",
    "ComparisonStopped",
    "Measure",
    "ModelResult",
    "Results",
    "built_in_variants",
    "compare",
    "load_comparison",
]
