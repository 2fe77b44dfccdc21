"""Explanations of a translation, and measurements of how far its attention can be trusted."""

from keras_transformer.analysis.explain.agreement import Agreement, kendall_tau
from keras_transformer.analysis.explain.attributions import (
    SentencePair,
    attention_rollout,
    erasure,
    gradient_times_input,
)
from keras_transformer.analysis.explain.explanation import Explanation, explain, open_explainable
from keras_transformer.analysis.explain.page import make_explanation_page
from keras_transformer.analysis.explain.verdict import Verdict, judge
from keras_transformer.analysis.explain.weight_change import (
    WeightChange,
    shuffle_weights,
    uniform_weights,
)

__all__ = [
    "Agreement",
    "Explanation",
    "SentencePair",
    "Verdict",
    "WeightChange",
    "attention_rollout",
    "erasure",
    "explain",
    "gradient_times_input",
    "judge",
    "kendall_tau",
    "make_explanation_page",
    "open_explainable",
    "shuffle_weights",
    "uniform_weights",
]
