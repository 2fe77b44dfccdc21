"""Tokenizers as graph operations, their special ids, and learning of vocabularies."""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily

if TYPE_CHECKING:
    from keras_transformer.text.bert_tokenizer import BertTokenizer
    from keras_transformer.text.byte_pair_tokenizer import BytePairTokenizer
    from keras_transformer.text.bytes_tokenizer import ByteTokenizer
    from keras_transformer.text.learning import check_learning, learn_tokenizer
    from keras_transformer.text.pretrained_sentencepiece_tokenizer import (
        PretrainedSentencePieceTokenizer,
    )
    from keras_transformer.text.registry import registered_tokenizers, tokenizer_class
    from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
    from keras_transformer.text.special_ids import SpecialIds
    from keras_transformer.text.template import Template
    from keras_transformer.text.tokenizer import NO_HEAD, Tokenizer, load_tokenizer, number_words
    from keras_transformer.text.tokenizer_pair import TokenizerPair
    from keras_transformer.text.wordpiece_tokenizer import WordPieceTokenizer

import_lazily(
    __name__,
    {
        "bert_tokenizer": "BertTokenizer",
        "byte_pair_tokenizer": "BytePairTokenizer",
        "bytes_tokenizer": "ByteTokenizer",
        "learning": "check_learning learn_tokenizer",
        "pretrained_sentencepiece_tokenizer": "PretrainedSentencePieceTokenizer",
        "registry": "registered_tokenizers tokenizer_class",
        "sentencepiece_tokenizer": "SentencePieceTokenizer",
        "special_ids": "SpecialIds",
        "template": "Template",
        "tokenizer": "NO_HEAD Tokenizer load_tokenizer number_words",
        "tokenizer_pair": "TokenizerPair",
        "wordpiece_tokenizer": "WordPieceTokenizer",
    },
)

__all__ = [
    "NO_HEAD",
    "BertTokenizer",
    "BytePairTokenizer",
    "ByteTokenizer",
    "PretrainedSentencePieceTokenizer",
    "SentencePieceTokenizer",
    "SpecialIds",
    "Template",
    "Tokenizer",
    "TokenizerPair",
    "WordPieceTokenizer",
    "check_learning",
    "learn_tokenizer",
    "load_tokenizer",
    "number_words",
    "registered_tokenizers",
    "tokenizer_class",
]
