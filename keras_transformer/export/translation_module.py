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

    def read(self, texts):
        texts = self.limits.cut(texts)
        most = self.limits.tokens - 1
        read = {
            "source": with_end(self.source_tokenizer.tokenize(texts)[:, :most]),
            "is_blank": is_blank(texts),
        }
        if self.copies_unknowns:
            spelt = self.source_tokenizer.spellings(texts)[:, :most]
            nothing = tf.zeros([tf.shape(texts)[0], 1], tf.string)  # the spelling of END
            read["spellings"] = tf.concat([spelt, nothing], axis=1)
        return read

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
            return tf.reshape(texts, tf.shape(found.score))
        return super().texts_of(found, part)

    def answers(self, found, part):
        is_blank, answers = part["is_blank"][:, None], super().answers(found, part)
        return {
            "text": tf.where(is_blank, "", answers["text"]),
            "score": tf.where(is_blank, 0.0, answers["score"]),
        }

    def score(self, source, target):
        pairs = self._pairs(source, target)

        def score(part):
            inputs, labels = self._padded(part)
            logits = self.model(inputs, training=False)
            is_token = labels != PADDING_ID
            of_tokens = token_log_probabilities(logits, labels)
            return {
                "log_probability": tf.reduce_sum(tf.where(is_token, of_tokens, 0.0), axis=1),
                "tokens": tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1),
            }

        empty = {"log_probability": tf.zeros([0]), "tokens": tf.zeros([0], tf.int32)}
        scored = self.by_length(score, pairs, self._lengths(pairs), empty)
        # As the translation of a blank text is scored.
        is_certain = pairs["is_blank"] & (target == "")
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
            inputs, labels = self._padded(part)
            weights = self.model.alignment(**inputs)
            weights *= tf.cast(labels != PADDING_ID, tf.float32)[..., None]
            source_tokens = self.tokens(self.source_tokenizer, inputs["source"])
            return {
                "source_tokens": padded_to(source_tokens, columns),
                "target_tokens": padded_to(self.tokens(self.target_tokenizer, labels), rows),
                "weights": padded_to(weights, rows, columns),
            }

        empty = self.no_attention(rows, columns)
        return self.by_length(attend, pairs, self._lengths(pairs), empty)

    def encode(self, text):
        columns = self.read(text)

        def encode(part):
            memory = self.model.encode(**self.model_inputs(part))
            return {"embedding": mean_over(memory.states, memory.mask)}

        empty = {"embedding": tf.zeros([0, self.model.config.width])}
        return self.by_length(encode, columns, self.lengths(columns), empty)

    def _pairs(self, source, target):
        ids = self.ids(self.target_tokenizer, target, self.scored_tokens - 1)
        starts = tf.fill([ids.nrows(), 1], START_ID)
        return {
            **self.read(source),
            "target": tf.concat([starts, ids], axis=1),
            "labels": with_end(ids),
        }

    def _lengths(self, pairs):
        return tf.maximum(self.lengths(pairs), pairs["labels"].row_lengths())

    def _padded(self, part):
        """The model's inputs by name, and the labels `[b, T]`."""
        inputs = {**self.model_inputs(part), "target": part["target"].to_tensor()}
        return inputs, part["labels"].to_tensor()
