"""Several models under one budget: planned, trained one after the other, compared."""

from keras_transformer.comparison.comparing import compare
from keras_transformer.comparison.comparison import Comparison
from keras_transformer.comparison.loading import load_comparison

__all__ = ["Comparison", "compare", "load_comparison"]
