"""Strings to ids and back, in the graph; learning a vocabulary.

Every module of this package is imported, so that a tokenizer in a file of its own registers itself.
"""

import importlib
import pkgutil

from keras_transformer.text.byte_tokenizer import ByteTokenizer
from keras_transformer.text.learning import learn_tokenizer
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.tokenizer import (
    END_ID,
    PADDING_ID,
    START_ID,
    UNKNOWN_ID,
    Tokenizer,
    load_tokenizer,
    registered_tokenizers,
    tokenizer_class,
)
from keras_transformer.text.tokenizer_pair import TokenizerPair
from keras_transformer.text.word_numbers import NO_HEAD, number_words
from keras_transformer.text.wordpiece_tokenizer import WordPieceTokenizer

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "END_ID",
    "NO_HEAD",
    "PADDING_ID",
    "START_ID",
    "UNKNOWN_ID",
    "ByteTokenizer",
    "SentencePieceTokenizer",
    "Tokenizer",
    "TokenizerPair",
    "WordPieceTokenizer",
    "learn_tokenizer",
    "load_tokenizer",
    "number_words",
    "registered_tokenizers",
    "tokenizer_class",
]
