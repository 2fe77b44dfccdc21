"""Text module of language models, which continue texts."""

from typing import Any, ClassVar, Literal

import keras
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import Search
from keras_transformer.export.modules.base import (
    TextLimits,
    check_limits,
    mean_over,
    padded_to,
    token_log_probabilities,
)
from keras_transformer.export.modules.generation import (
    GenerationModule,
    longest_of,
    no_scores,
    summed_scores,
)

#: Default of the number of tokens that a language model adds to a text.
CONTINUATION = 256


class ContinuationModule(GenerationModule):
    """Continues strings with a `LanguageModel`.

    Each returned text begins with the given one. Of a text that is too long, the end is kept.

    Args:
        trained: see `GenerationModule`, also for the other arguments.
    """

    input_name: ClassVar[Literal["source", "prefix"]] = "prefix"

    @staticmethod
    def default_length(model: keras.Model) -> int:
        return min(CONTINUATION, model.config.max_length // 2)

    @staticmethod
    def choose_limits(model: keras.Model, search: Search, limits: TextLimits | None) -> TextLimits:
        # Prompt and continuation share the model's positions. At least half of them belong to the
        # prompt, however long the continuation may be.
        end = model.position_limit
        longest = model.config.max_length if end is None else min(model.config.max_length, end)
        tokens = max(1, longest - search.lengths.maximum, longest // 2)
        # A prompt must leave room for one token.
        return check_limits(limits or TextLimits(tokens=tokens), end, end and end - 1)

    @staticmethod
    def check_search(model: keras.Model, search: Search) -> None:
        if search.needs_attention:
            raise UserError(
                f"A {type(model).__name__} has no source, so there is no coverage of one.",
                fix="Leave out the `coverage_penalty`.",
            )

    def read(self, texts: tf.Tensor) -> dict[str, Any]:
        ids = self.source_tokenizer.tokenize(self.limits.cut(texts, keep="end"))
        return {"prefix": ids[:, -self.limits.tokens :]}

    def score(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = self._rows(source, target)

        def score(part: dict[str, Any]) -> dict[str, tf.Tensor]:
            inputs, labels = self.padded(part["inputs"]), self.padded(part["labels"])
            logits = self.model({"target": inputs}, training=False)
            of_tokens = token_log_probabilities(logits, labels)
            return summed_scores(of_tokens, part["is_scored"].to_tensor(False))

        return self.in_sub_batches(score, rows, rows["labels"].row_lengths(), no_scores())

    def attention(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = self._rows(source, target)
        longest = longest_of(rows["labels"])

        def attend(part: dict[str, Any]) -> dict[str, tf.Tensor]:
            weights = self.model.alignment(self.padded(part["inputs"]))
            is_token = tf.sequence_mask(part["labels"].row_lengths())
            weights *= tf.expand_dims(tf.cast(is_token, tf.float32), -1)
            inputs = self.tokens(self.source_tokenizer, part["inputs"])
            labels = self.tokens(self.source_tokenizer, part["labels"])
            return {
                "source_tokens": padded_to(inputs, longest),
                "target_tokens": padded_to(labels, longest),
                "weights": padded_to(weights, longest, longest),
            }

        empty = self.no_attention(longest, longest)
        return self.in_sub_batches(attend, rows, rows["labels"].row_lengths(), empty)

    def encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = self.with_start(self.read(text)["prefix"])

        def encode(part: dict[str, Any]) -> dict[str, tf.Tensor]:
            states = self.model.states(self.padded(part["ids"]))
            is_token = tf.sequence_mask(part["ids"].row_lengths())
            return {"embedding": mean_over(states, is_token)}

        empty = {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
        return self.in_sub_batches(encode, {"ids": ids}, ids.row_lengths(), empty)

    def _rows(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, Any]:
        """Returns source and target in one row each: ragged "inputs", "labels" and "is_scored".

        Where there is no room for both, the beginning of the source is left out.
        """
        before = self.read(source)["prefix"]
        after = self.with_end(self.ids(self.target_tokenizer, target, self.scored_tokens - 1))
        too_many = before.row_lengths() + after.row_lengths() - self.scored_tokens
        is_kept = tf.ragged.range(before.row_lengths()) >= tf.maximum(too_many, 0)[:, None]
        before = tf.ragged.boolean_mask(before, is_kept)
        is_target: Any = tf.concat([tf.zeros_like(before), tf.ones_like(after)], axis=1)
        return {
            "inputs": tf.concat([self.with_start(before), after[:, :-1]], axis=1),
            "labels": tf.concat([before, after], axis=1),
            "is_scored": is_target > 0,
        }
