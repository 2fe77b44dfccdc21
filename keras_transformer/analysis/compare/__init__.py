"""Several models under one budget: planned, trained one after the other, compared."""

from keras_transformer.analysis.compare.comparison import Comparison, load_comparison
from keras_transformer.analysis.compare.running import compare

__all__ = ["Comparison", "compare", "load_comparison"]
