"""Why a model wrote what it wrote, and how far its attention can be believed about it."""

from keras_transformer.explanation.agreement import Agreement
from keras_transformer.explanation.attention_rollout import attention_rollout
from keras_transformer.explanation.explaining import explain, open_explainable
from keras_transformer.explanation.explanation import Explanation
from keras_transformer.explanation.kendall_tau import kendall_tau
from keras_transformer.explanation.page import make_explanation_page
from keras_transformer.explanation.verdict import Verdict, judge
from keras_transformer.explanation.weight_change import WeightChange

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
