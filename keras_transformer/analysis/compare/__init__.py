"""Comparisons of models under one budget: planning, training, results, reports."""

from keras_transformer.analysis.compare.comparison import Budget, Comparison, load_comparison
from keras_transformer.analysis.compare.results import Results
from keras_transformer.analysis.compare.running import ComparisonStopped, compare

__all__ = ["Budget", "Comparison", "ComparisonStopped", "Results", "compare", "load_comparison"]
