"""A model with source and target, as graph functions over strings."""

import dataclasses

import tensorflow as tf

from keras_transformer.export.text_generator import TextGenerator
from keras_transformer.export.text_module import (
    is_blank,
    mean_over,
    padded_to,
    token_log_probabilities,
    with_end,
)
from keras_transformer.text import PADDING_ID, START_ID


class TranslationModule(TextGenerator):
    """Translates strings with a `Transformer` or any other model that has a source.

    A blank text is translated to an empty one, with the score 0. Where the target's vocabulary has
    unknown words, they are copied from the source: the token that was attended to most. Arguments:
    see `TextGenerator`.
    """

    input_name = "source"

    def __init__(self, trained, search, limits, xla=False, stored_dtype=None):
        self.copies_unknowns = trained.tokenizers.target.has_unknowns
        if self.copies_unknowns:
            search = dataclasses.replace(search, with_alignment=True)
        super().__init__(trained, search, limits, xla, stored_dtype)

    def is_blank(self, texts):
        """Whether what can be seen of each text is blank, boolean `[B]`."""
        return is_blank(self.limits.cut(texts))

    def input_ids(self, texts):
        return with_end(self.ids(self.source_tokenizer, texts, self.limits.tokens - 1))

    def columns(self, texts):
        columns = super().columns(texts)
        columns["is_blank"] = self.is_blank(texts)
        if self.copies_unknowns:
            spelt = self.source_tokenizer.spellings(self.limits.cut(texts))
            spelt = spelt[:, : self.limits.tokens - 1]
            nothing = tf.zeros([tf.shape(texts)[0], 1], tf.string)  # the spelling of END
            columns["spellings"] = tf.concat([spelt, nothing], axis=1)
        return columns

    def texts_of(self, found, part):
        if self.copies_unknowns:
            spelt = part["spellings"].to_tensor("")  # [b, S]
            # XLA pads the source, and what is padded is never attended to most, but for ties.
            places = tf.minimum(found.alignment, tf.shape(spelt)[1] - 1)
            copied = tf.gather(spelt, places, axis=1, batch_dims=1)  # [b, N, T]
            length = tf.shape(found.ids)[2]
            texts = self.target_tokenizer.detokenize(
                tf.reshape(found.ids, [-1, length]), tf.reshape(copied, [-1, length])
            )
            texts = tf.reshape(texts, tf.shape(found.score))
        else:
            texts = super().texts_of(found, part)
        return tf.where(part["is_blank"][:, None], "", texts)

    def _generate(self, texts, find, width):
        found = super()._generate(texts, find, width)
        return {**found, "score": tf.where(self.is_blank(texts)[:, None], 0.0, found["score"])}

    def score(self, source, target):
        pairs = self._pairs(source, target)

        def score(part):
            source, target, labels = self._padded(part)
            logits = self.model({"source": source, "target": target}, training=False)
            is_token = labels != PADDING_ID
            of_tokens = token_log_probabilities(logits, labels)
            return {
                "log_probability": tf.reduce_sum(tf.where(is_token, of_tokens, 0.0), axis=1),
                "tokens": tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1),
            }

        empty = {"log_probability": tf.zeros([0]), "tokens": tf.zeros([0], tf.int32)}
        scored = self.by_length(score, pairs, self._lengths(pairs), empty)
        # As the translation of a blank text is scored.
        is_certain = self.is_blank(source) & (target == "")
        return {
            name: tf.where(is_certain, tf.zeros_like(value), value)
            for name, value in scored.items()
        }

    def attention(self, source, target):
        pairs = self._pairs(source, target)
        rows = tf.cast(tf.reduce_max(pairs["labels"].row_lengths()), tf.int32)
        columns = tf.cast(tf.reduce_max(pairs["source"].row_lengths()), tf.int32)
        rows, columns = tf.maximum(rows, 0), tf.maximum(columns, 0)  # of no texts, the least int

        def attend(part):
            source, target, labels = self._padded(part)
            weights = self.model.alignment(source, target)
            weights *= tf.cast(labels != PADDING_ID, tf.float32)[..., None]
            return {
                "source_tokens": padded_to(self.tokens(self.source_tokenizer, source), columns),
                "target_tokens": padded_to(self.tokens(self.target_tokenizer, labels), rows),
                "weights": padded_to(weights, rows, columns),
            }

        empty = self.no_attention(rows, columns)
        return self.by_length(attend, pairs, self._lengths(pairs), empty)

    def encode(self, text):
        ids = self.input_ids(text)

        def encode(part):
            memory = self.model.encode(part["ids"].to_tensor())
            return {"embedding": mean_over(memory.states, memory.mask)}

        empty = {"embedding": tf.zeros([0, self.model.config.width])}
        return self.by_length(encode, {"ids": ids}, ids.row_lengths(), empty)

    def _pairs(self, source, target):
        ids = self.ids(self.target_tokenizer, target, self.scored_tokens - 1)
        starts = tf.fill([ids.nrows(), 1], START_ID)
        return {
            "source": self.input_ids(source),
            "target": tf.concat([starts, ids], axis=1),
            "labels": with_end(ids),
        }

    def _lengths(self, pairs):
        return tf.maximum(pairs["source"].row_lengths(), pairs["labels"].row_lengths())

    def _padded(self, part):
        return tuple(part[name].to_tensor() for name in ("source", "target", "labels"))
