"""Use of trained models: translation, generation, scores, evaluation and attention of texts."""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily

if TYPE_CHECKING:
    from keras_transformer.inference.attention_maps import (
        Alignment,
        align,
        draw_attention,
        make_attention_page,
        save_attention,
    )
    from keras_transformer.inference.evaluation import (
        Evaluation,
        PoorSentence,
        evaluate,
        evaluate_translations,
    )
    from keras_transformer.inference.readers import LineReader, SentenceReader
    from keras_transformer.inference.text_methods import Classification, TextMethods
    from keras_transformer.inference.text_model import TextModel, load
    from keras_transformer.inference.translation import (
        Score,
        Translation,
        score_pairs,
        translate_lines,
    )
    from keras_transformer.metrics.bleu import BLEU_TOKENS

__all__ = [
    "BLEU_TOKENS",
    "Alignment",
    "Classification",
    "Evaluation",
    "LineReader",
    "PoorSentence",
    "Score",
    "SentenceReader",
    "TextMethods",
    "TextModel",
    "Translation",
    "align",
    "draw_attention",
    "evaluate",
    "evaluate_translations",
    "load",
    "make_attention_page",
    "save_attention",
    "score_pairs",
    "translate_lines",
]

import_lazily(
    __name__,
    {
        "attention_maps": "Alignment align draw_attention make_attention_page save_attention",
        "evaluation": "BLEU_TOKENS Evaluation PoorSentence evaluate evaluate_translations",
        "readers": "LineReader SentenceReader",
        "text_methods": "Classification TextMethods",
        "text_model": "TextModel load",
        "translation": "Score Translation score_pairs translate_lines",
    },
)
