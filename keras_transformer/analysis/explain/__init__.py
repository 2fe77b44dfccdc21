"""Explanations of a translation, and measurements of how far its attention can be trusted."""

from keras_transformer.analysis.explain.explanation import (
    Explanation,
    Verdict,
    explain,
    judge,
    open_explainable,
)
from keras_transformer.analysis.explain.page import make_explanation_page

__all__ = [
    "Explanation",
    "Verdict",
    "explain",
    "judge",
    "make_explanation_page",
    "open_explainable",
]
