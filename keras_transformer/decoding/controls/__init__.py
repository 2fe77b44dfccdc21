"""What a user may demand of hypotheses: one control a file."""

from keras_transformer.decoding.controls.control import Control
from keras_transformer.decoding.controls.forbidden_tokens import ForbiddenTokens
from keras_transformer.decoding.controls.no_repeat_ngram import NoRepeatNgram
from keras_transformer.decoding.controls.repetition_penalty import RepetitionPenalty

__all__ = ["Control", "ForbiddenTokens", "NoRepeatNgram", "RepetitionPenalty"]
