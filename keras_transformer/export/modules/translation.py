"""Text modules of models that translate a source: from plain text, or from CoNLL-U with trees."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.decoding import Hypotheses, Search, SearchSettings
from keras_transformer.export.modules.base import (
    TextLimits,
    is_blank,
    mean_over,
    padded_to,
    source_limits,
    token_log_probabilities,
)
from keras_transformer.export.modules.generation import (
    GenerationModule,
    longest_of,
    no_scores,
    summed_scores,
)
from keras_transformer.text import NO_HEAD, number_words

if TYPE_CHECKING:
    from keras_transformer.export.trained_model import TrainedModel
    from keras_transformer.text import Tokenizer

#: Bytes of CoNLL-U, lemma and features included, that are read for each token of the limits.
BYTES_PER_LINE = 1024

# Line of a word: ten columns, the first a whole number. Comments and the lines of multiword tokens
# (3-4) and of empty nodes (8.1) do not match.
_WORD = "([1-9][0-9]{0,8})\t([^\t]+)" + "\t[^\t]+" * 4 + "\t([^\t]+)" + "\t[^\t]+" * 3 + "\r?"
_HEAD = "0|[1-9][0-9]{0,8}"


class TranslationModule(GenerationModule):
    """Translates strings with a `Transformer` or another model that has a source.

    A blank text is translated to an empty one, with the score 0. If the target's vocabulary has
    unknown words, each is replaced by the source token with the highest attention.

    Args:
        trained: see `GenerationModule`, also for the other arguments.
    """

    input_name: ClassVar[Literal["source", "prefix"]] = "source"

    def __init__(
        self,
        trained: "TrainedModel",
        search: Search | SearchSettings | None = None,
        limits: TextLimits | None = None,
        xla: bool = False,
        stored_dtype: str | None = None,
    ) -> None:
        super().__init__(trained, search, limits, xla, stored_dtype)
        self.copies_unknowns: bool = self.target_tokenizer.has_unknowns
        if self.copies_unknowns:
            for name, each in self.searches.items():
                self.searches[name] = dataclasses.replace(each, with_alignment=True)

    @staticmethod
    def default_length(model: keras.Model) -> int:
        return model.config.max_length

    @staticmethod
    def choose_limits(model: keras.Model, search: Search, limits: TextLimits | None) -> TextLimits:
        return source_limits(model, limits)

    def read(self, texts: tf.Tensor) -> dict[str, Any]:
        texts = self.limits.cut(texts)
        maximum = self.limits.tokens - 1  # and the end token
        columns = {
            "source": self.with_end(self.source_tokenizer.tokenize(texts)[:, :maximum]),
            "is_blank": is_blank(texts),
        }
        if self.copies_unknowns:
            spellings = self.source_tokenizer.spellings(texts)[:, :maximum]
            of_end: Any = tf.zeros([tf.shape(texts)[0], 1], tf.string)
            columns["spellings"] = tf.concat([spellings, of_end], axis=1)
        return columns

    def answers(self, found: Hypotheses, part: dict[str, Any]) -> dict[str, tf.Tensor]:
        if self.copies_unknowns:
            texts = self._with_copies(found, part["spellings"].to_tensor(""))
        else:
            texts = super().answers(found, part)["text"]
        blank = part["is_blank"][:, None]
        return {"text": tf.where(blank, "", texts), "score": tf.where(blank, 0.0, found.score)}

    def _with_copies(self, found: Any, spellings: tf.Tensor) -> tf.Tensor:
        """Returns texts `[b, N]` in which the spellings `[b, S]` of the source replace unknowns."""
        # Under XLA the source is longer, but padding has the highest attention only in a tie.
        positions = tf.minimum(found.alignment, tf.shape(spellings)[1] - 1)
        copied = tf.gather(spellings, positions, axis=1, batch_dims=1)  # [b, N, T]
        length = tf.shape(found.ids)[2]
        texts = self.target_tokenizer.detokenize(
            tf.reshape(found.ids, [-1, length]), tf.reshape(copied, [-1, length])
        )
        return tf.reshape(texts, tf.shape(found.score))

    def score(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        pairs = self._pairs(source, target)

        def score(part: dict[str, Any]) -> dict[str, tf.Tensor]:
            labels = self.padded(part["labels"])
            logits = self.model(self._pair_inputs(part), training=False)
            of_tokens = token_log_probabilities(logits, labels)
            return summed_scores(of_tokens, _mask(part["labels"]))

        scored = self.in_sub_batches(score, pairs, self._pair_lengths(pairs), no_scores())
        # As the search scores the translation of a blank text.
        is_certain = pairs["is_blank"] & (target == "")
        return {
            name: tf.where(is_certain, tf.zeros_like(value), value)
            for name, value in scored.items()
        }

    def attention(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        pairs = self._pairs(source, target)
        rows, columns = longest_of(pairs["labels"]), longest_of(pairs["source"])

        def attend(part: dict[str, Any]) -> dict[str, tf.Tensor]:
            weights = self.model.alignment(**self._pair_inputs(part))
            weights *= tf.expand_dims(tf.cast(_mask(part["labels"]), tf.float32), -1)
            source_tokens = self.tokens(self.source_tokenizer, part["source"])
            target_tokens = self.tokens(self.target_tokenizer, part["labels"])
            return {
                "source_tokens": padded_to(source_tokens, columns),
                "target_tokens": padded_to(target_tokens, rows),
                "weights": padded_to(weights, rows, columns),
            }

        empty = self.no_attention(rows, columns)
        return self.in_sub_batches(attend, pairs, self._pair_lengths(pairs), empty)

    def encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = self.read(text)

        def encode(part: dict[str, Any]) -> dict[str, tf.Tensor]:
            encoded = self.model.encode(**self.model_inputs(part))
            return {"embedding": mean_over(encoded.states, encoded.mask)}

        empty = {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
        return self.in_sub_batches(encode, columns, self.lengths(columns), empty)

    def _pairs(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, Any]:
        """Returns `read`'s columns, and ragged ids: decoder inputs "target", and "labels"."""
        ids = self.ids(self.target_tokenizer, target, self.scored_tokens - 1)
        return {
            **self.read(source),
            "target": self.with_start(ids),
            "labels": self.with_end(ids),
        }

    def _pair_lengths(self, pairs: dict[str, Any]) -> tf.Tensor:
        return tf.maximum(self.lengths(pairs), pairs["labels"].row_lengths())

    def _pair_inputs(self, part: dict[str, Any]) -> dict[str, tf.Tensor]:
        return {**self.model_inputs(part), "target": self.padded(part["target"])}


class TreeTranslationModule(TranslationModule):
    """Translates sentences in CoNLL-U, the output format of parsers.

    A string is a sentence, see `parse_conllu`. A string without the line of a word is plain text,
    whose words are in no tree; neither are words whose heads lead to no root.

    Args:
        trained: see `GenerationModule`, also for the other arguments.
    """

    def read(self, texts: tf.Tensor) -> dict[str, Any]:
        strings = self.limits.cut(texts, bytes_per_token=BYTES_PER_LINE)
        parsed = parse_conllu(strings, maximum_words=self.limits.tokens)
        return {
            **super().read(parsed.texts),
            "word_sizes": self.source_tokenizer.word_sizes(parsed.words),
            "heads": parsed.heads,
        }

    def lengths(self, columns: dict[str, Any]) -> tf.Tensor:
        # A word without a token takes up room in its tree.
        return tf.maximum(super().lengths(columns), columns["heads"].row_lengths())

    def model_inputs(self, part: dict[str, Any]) -> dict[str, tf.Tensor]:
        inputs = super().model_inputs(part)
        sizes, heads = part["word_sizes"], part["heads"]
        return {**inputs, **tree_inputs(self.source_tokenizer, inputs["source"], sizes, heads)}

    def padding_of(self, name: str) -> int:
        return NO_HEAD if name == "source_heads" else super().padding_of(name)


def reads_trees(config: Any) -> bool:
    """Returns whether a model with this config reads CoNLL-U."""
    return getattr(config, "reads_trees", False)


def tree_inputs(
    tokenizer: "Tokenizer",
    ids: tf.Tensor,
    word_sizes: tf.RaggedTensor,
    heads: tf.RaggedTensor,
) -> dict[str, tf.Tensor]:
    """Returns a model's inputs that describe trees, by name.

    Args:
        tokenizer: tokenizer of the source.
        ids: padded ids of the source, int32 `[b, S]`.
        word_sizes: sizes of the words by the tokenizer, ragged `[b, None]`.
        heads: heads of the words, ragged int32 `[b, None]`.
    """
    words = number_words(tokenizer, ids, word_sizes.to_tensor())
    padded = heads.to_tensor(NO_HEAD)
    # At least as many columns as ids, so that XLA compiles for few shapes.
    room: Any = tf.maximum(tf.shape(ids)[1] - tf.shape(padded)[1], 0)
    padded = tf.pad(padded, [[0, 0], [0, room]], constant_values=NO_HEAD)
    return {"source_words": words, "source_heads": padded}


class ParsedTexts(NamedTuple):
    """Content of B strings in CoNLL-U.

    Attributes:
        texts: string `[B]`, the words joined with spaces, or the string itself if it is plain text.
        words: ragged strings `[B, W]`; empty rows for plain text.
        heads: ragged int32 `[B, W]`, the number of the word that each depends on, 0 for a root,
            `NO_HEAD` for what is not a valid head.
    """

    texts: tf.Tensor
    words: tf.RaggedTensor
    heads: tf.RaggedTensor


def parse_conllu(strings: tf.Tensor, maximum_words: int) -> ParsedTexts:
    """Returns the `ParsedTexts` of strings `[B]`, each a sentence in CoNLL-U or plain text.

    The result equals that of `read_sentences`, which reads training files; it is computed by core
    TensorFlow operations. A graph cannot report mistakes, so there are none: a string without the
    line of a word is plain text; other lines are skipped; a head that is not a number, or that
    belongs to a word with a wrong number, becomes `NO_HEAD`.

    Args:
        strings: string `[B]`, in UTF-8; other bytes of CoNLL-U become U+FFFD.
        maximum_words: maximum number of words of a sentence; the rest is ignored.

    Example:

    >>> line = "{}\\t{}\\t_\\t_\\t_\\t_\\t{}\\t_\\t_\\t_"
    >>> sentence = "\\n".join([line.format(1, "Dogs", 2), line.format(2, "sleep", 0)])
    >>> parsed = parse_conllu(tf.constant([sentence, "Hello!"]), maximum_words=100)
    >>> parsed.texts.numpy().tolist(), parsed.heads.to_list()
    ([b'Dogs sleep', b'Hello!'], [[2, 0], []])
    """
    lines = tf.strings.split(
        tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace"), "\n"
    )
    is_word = tf.strings.regex_full_match(lines.values, _WORD)
    lines = tf.ragged.boolean_mask(lines, lines.with_values(is_word))[:, :maximum_words]
    number, word, head = (
        tf.strings.regex_replace(lines.values, _WORD, rf"\{group}") for group in (1, 2, 3)
    )
    expected = tf.ragged.range(tf.cast(lines.row_lengths(), tf.int32)).values + 1
    is_counted = tf.strings.to_number(number, tf.int32) == expected
    is_head = tf.strings.regex_full_match(head, _HEAD) & is_counted
    heads = tf.strings.to_number(tf.where(is_head, head, str(NO_HEAD)), tf.int32)
    words = lines.with_values(word)
    joined = tf.strings.reduce_join(words, axis=-1, separator=" ")
    texts = tf.where(lines.row_lengths() > 0, joined, strings)
    return ParsedTexts(texts, words, lines.with_values(heads))


def _mask(ids: tf.RaggedTensor) -> tf.Tensor:
    """Returns where the rows of ragged ids hold tokens, boolean `[b, T]`."""
    return tf.sequence_mask(ids.row_lengths())
