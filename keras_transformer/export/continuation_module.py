"""A language model, as graph functions over strings."""

import tensorflow as tf

from keras_transformer.export.text_generator import TextGenerator
from keras_transformer.export.text_module import (
    mean_over,
    padded_to,
    token_log_probabilities,
    with_end,
)
from keras_transformer.text import PADDING_ID, START_ID


class ContinuationModule(TextGenerator):
    """Goes on writing what strings begin, with a `LanguageModel`.

    The texts given back begin with what was given. Of a text that is too long the end is seen, not
    the beginning. Arguments: see `TextGenerator`.
    """

    input_name = "prefix"

    def input_ids(self, texts):
        """The ids `[B, None]` of what can be seen of texts."""
        ids = self.source_tokenizer.tokenize(self.limits.cut(texts, keep="end"))
        return ids[:, -self.limits.tokens :]

    def read(self, texts):
        return {"prefix": self.input_ids(texts)}

    def score(self, source, target):
        rows = self._rows(source, target)

        def score(part):
            inputs, labels = part["inputs"].to_tensor(), part["labels"].to_tensor()
            is_scored = part["is_scored"].to_tensor(False)
            logits = self.model({"target": inputs}, training=False)
            of_tokens = token_log_probabilities(logits, labels)
            return {
                "log_probability": tf.reduce_sum(tf.where(is_scored, of_tokens, 0.0), axis=1),
                "tokens": tf.reduce_sum(tf.cast(is_scored, tf.int32), axis=1),
            }

        empty = {"log_probability": tf.zeros([0]), "tokens": tf.zeros([0], tf.int32)}
        return self.by_length(score, rows, rows["labels"].row_lengths(), empty)

    def attention(self, source, target):
        rows = self._rows(source, target)
        longest = tf.cast(tf.maximum(tf.reduce_max(rows["labels"].row_lengths()), 0), tf.int32)

        def attend(part):
            inputs, labels = part["inputs"].to_tensor(), part["labels"].to_tensor()
            weights = self.model.alignment(inputs)
            weights *= tf.cast(labels != PADDING_ID, tf.float32)[..., None]
            return {
                "source_tokens": padded_to(self.tokens(self.source_tokenizer, inputs), longest),
                "target_tokens": padded_to(self.tokens(self.source_tokenizer, labels), longest),
                "weights": padded_to(weights, longest, longest),
            }

        empty = self.no_attention(longest, longest)
        return self.by_length(attend, rows, rows["labels"].row_lengths(), empty)

    def encode(self, text):
        ids = self.input_ids(text)
        starts = tf.fill([ids.nrows(), 1], START_ID)
        ids = tf.concat([starts, ids], axis=1)

        def encode(part):
            ids = part["ids"].to_tensor()
            return {"embedding": mean_over(self.model.states(ids), ids != PADDING_ID)}

        empty = {"embedding": tf.zeros([0, self.model.config.width])}
        return self.by_length(encode, {"ids": ids}, ids.row_lengths(), empty)

    def _rows(self, source, target):
        """Inputs and labels of both texts in a row, and which labels are the target's.

        Where there is no room for both, the beginning of the source is left out.
        """
        before = self.input_ids(source)
        after = with_end(self.ids(self.target_tokenizer, target, self.scored_tokens - 1))
        too_many = before.row_lengths() + after.row_lengths() - self.scored_tokens
        is_kept = tf.ragged.range(before.row_lengths()) >= tf.maximum(too_many, 0)[:, None]
        before = tf.ragged.boolean_mask(before, is_kept)
        starts = tf.fill([before.nrows(), 1], START_ID)
        return {
            "inputs": tf.concat([starts, before, after[:, :-1]], axis=1),
            "labels": tf.concat([before, after], axis=1),
            "is_scored": tf.concat([tf.zeros_like(before), tf.ones_like(after)], axis=1) > 0,
        }
