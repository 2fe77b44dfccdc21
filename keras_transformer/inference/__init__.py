"""A text model at work: lines translated, evaluated, scored, and looked into."""

from keras_transformer.inference.attention_maps import (
    Alignment,
    align,
    draw_attention,
    make_attention_page,
)
from keras_transformer.inference.evaluation import (
    BLEU_TOKENS,
    Evaluation,
    PoorSentence,
    evaluate,
    evaluate_translations,
)
from keras_transformer.inference.readers import LineReader, SentenceReader
from keras_transformer.inference.scoring import Score, score_pairs
from keras_transformer.inference.translation import Translation, translate_lines

__all__ = [
    "BLEU_TOKENS",
    "Alignment",
    "Evaluation",
    "LineReader",
    "PoorSentence",
    "Score",
    "SentenceReader",
    "Translation",
    "align",
    "draw_attention",
    "evaluate",
    "evaluate_translations",
    "make_attention_page",
    "score_pairs",
    "translate_lines",
]
