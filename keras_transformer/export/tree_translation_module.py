"""A model that reads the trees of its source, as graph functions over strings."""

import types

import tensorflow as tf

from keras_transformer.export.conllu_parsing import parse_conllu
from keras_transformer.export.translation_module import TranslationModule
from keras_transformer.text import NO_HEAD, number_words

#: Of a line of CoNLL-U, lemma and features included, so much is seen for each token of the limits.
BYTES_OF_A_LINE = 1024


class TreeTranslationModule(TranslationModule):
    """Translates sentences that are given as CoNLL-U, which is what a parser prints.

    A string is a sentence: a line of ten columns for each word, see `parse_conllu`. A string
    without such a line is plain text, whose words are in no tree; nor are words whose heads lead to
    no root. Arguments: see `TextGenerator`.
    """

    paddings = types.MappingProxyType({"source_heads": NO_HEAD})

    def read(self, texts):
        limits = self.limits
        strings = limits.cut(texts, bytes_of_a_token=BYTES_OF_A_LINE)
        parsed = parse_conllu(strings, most_words=limits.tokens)
        return {
            **super().read(parsed.texts),
            "word_sizes": self.source_tokenizer.word_sizes(parsed.words),
            "heads": parsed.heads,
        }

    def lengths(self, columns):
        # A word may have no token, and yet takes up room in its tree.
        return tf.maximum(super().lengths(columns), columns["heads"].row_lengths())

    def model_inputs(self, part):
        inputs = super().model_inputs(part)
        sizes, heads = part["word_sizes"], part["heads"]
        return {**inputs, **tree_inputs(self.source_tokenizer, inputs["source"], sizes, heads)}


def tree_inputs(tokenizer, ids, word_sizes, heads):
    """What a model reads of trees, by name.

    Args:
        tokenizer: of the source.
        ids: int32 `[b, S]`, padded.
        word_sizes: ragged `[b, None]`, of the words, by the tokenizer.
        heads: ragged int32 `[b, None]`, of the words.
    """
    words = number_words(tokenizer, ids, word_sizes.to_tensor())
    heads = heads.to_tensor(NO_HEAD)
    # As wide as the ids at least, so that XLA has few shapes to compile for.
    room = tf.maximum(tf.shape(ids)[1] - tf.shape(heads)[1], 0)
    heads = tf.pad(heads, [[0, 0], [0, room]], constant_values=NO_HEAD)
    return {"source_words": words, "source_heads": heads}
