"""Text module of language models, which continue texts."""

from typing import Any, ClassVar, Literal

import tensorflow as tf

from keras_transformer.decoding import Search
from keras_transformer.export.modules.base import Tensors, TextLimits, check_limits
from keras_transformer.export.modules.generation import GenerationModule, mean_over

#: Default of the number of tokens that a language model adds to a text.
CONTINUATION = 256


class ContinuationModule(GenerationModule):
    """Continues strings with a `LanguageModel`.

    Each returned text begins with the given one. Of a text that is too long, the end is kept.
    """

    input_name: ClassVar[Literal["source", "prefix"]] = "prefix"

    def default_length(self) -> int:
        return min(CONTINUATION, self.model.config.max_length // 2)

    def choose_limits(self, search: Search, limits: TextLimits | None) -> TextLimits:
        # Prompt and continuation share the model's positions. At least half of them belong to the
        # prompt, however long the continuation may be.
        longest, end = self.model.config.max_length, self.model.position_limit
        longest = longest if end is None else min(longest, end)
        tokens = max(1, longest - search.lengths.maximum, longest // 2)
        # A prompt must leave space for one token.
        return check_limits(limits or TextLimits(tokens=tokens), end, end and end - 1)

    def read(self, texts: tf.Tensor) -> dict[str, Any]:
        ids = self.source_tokenizer.tokenize(self.limits.cut(texts, keep="end"))
        return {"prefix": ids[:, -self.limits.tokens :]}

    def encode(self, text: tf.Tensor) -> Tensors:
        ids = self.with_start(self.read(text)["prefix"])

        def encode(part: dict[str, Any]) -> Tensors:
            states = self.model.states(self.padded(part["ids"]))
            is_token = tf.sequence_mask(part["ids"].row_lengths())
            return {"embedding": mean_over(states, is_token)}

        empty = {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
        return self.in_sub_batches(encode, {"ids": ids}, ids.row_lengths(), empty)

    def pairs(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, Any]:
        # Source and target are one row. If they are too long together, the beginning of the source
        # is left out.
        before = self.read(source)["prefix"]
        after = self.with_end(self.ids(self.target_tokenizer, target, self.scored_tokens - 1))
        too_many = before.row_lengths() + after.row_lengths() - self.scored_tokens
        is_kept = tf.ragged.range(before.row_lengths()) >= tf.maximum(too_many, 0)[:, None]
        before = tf.ragged.boolean_mask(before, is_kept)
        is_target: Any = tf.concat([tf.zeros_like(before), tf.ones_like(after)], axis=1)
        return {
            "target": tf.concat([self.with_start(before), after[:, :-1]], axis=1),
            "labels": tf.concat([before, after], axis=1),
            "is_scored": is_target > 0,
        }
