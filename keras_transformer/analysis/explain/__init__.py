"""Why a model wrote what it wrote, and how far its attention can be believed about it."""

from keras_transformer.analysis.explain.agreement import Agreement, kendall_tau
from keras_transformer.analysis.explain.attributions import attention_rollout
from keras_transformer.analysis.explain.explanation import Explanation, explain, open_explainable
from keras_transformer.analysis.explain.page import make_explanation_page
from keras_transformer.analysis.explain.verdict import Verdict, judge
from keras_transformer.analysis.explain.weight_change import WeightChange

__all__ = [
    "Agreement",
    "Explanation",
    "Verdict",
    "WeightChange",
    "attention_rollout",
    "explain",
    "judge",
    "kendall_tau",
    "make_explanation_page",
    "open_explainable",
]
