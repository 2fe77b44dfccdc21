"""Text modules of models that translate a source: from plain text, or from CoNLL-U with trees."""

from typing import Any, ClassVar, Literal, NamedTuple

import tensorflow as tf

from keras_transformer.decoding import Hypotheses, Search
from keras_transformer.export.modules.base import Tensors, TextLimits, is_blank, source_limits
from keras_transformer.export.modules.generation import GenerationModule, mean_over
from keras_transformer.text import NO_HEAD, Tokenizer, number_words

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
    """

    input_name: ClassVar[Literal["source", "prefix"]] = "source"

    def default_length(self) -> int:
        return self.model.config.max_length

    def choose_limits(self, search: Search, limits: TextLimits | None) -> TextLimits:
        return source_limits(self.model, limits)

    def read(self, texts: tf.Tensor) -> dict[str, Any]:
        texts = self.limits.cut(texts)
        columns = {"source": self.source_ids(texts), "is_blank": is_blank(texts)}
        if self.copies_unknowns:
            template = self.source_tokenizer.template
            maximum = max(self.limits.tokens - template.size, 0)
            spellings: Any = self.source_tokenizer.spellings(texts)[:, :maximum]
            around: list[Any] = [
                tf.zeros([tf.shape(texts)[0], len(ids)], tf.string)
                for ids in (template.prefix, template.suffix)
            ]
            columns["spellings"] = tf.concat([around[0], spellings, around[1]], axis=1)
        return columns

    def answers(
        self, found: Hypotheses, part: dict[str, Any], unknown: tf.Tensor | None = None
    ) -> Tensors:
        if self.copies_unknowns:
            spellings = part["spellings"].to_tensor("")  # [b, S]
            # Under XLA the source is longer, but padding has the highest attention only in a tie.
            positions = tf.minimum(found.alignment, tf.shape(spellings)[1] - 1)
            unknown = tf.gather(spellings, positions, axis=1, batch_dims=1)  # [b, N, T]
        texts = super().answers(found, part, unknown)["text"]
        blank = part["is_blank"][:, None]
        return {"text": tf.where(blank, "", texts), "score": tf.where(blank, 0.0, found.score)}

    def encode(self, text: tf.Tensor) -> Tensors:
        columns = self.read(text)

        def encode(part: dict[str, Any]) -> Tensors:
            encoded = self.model.encode(**self.model_inputs(part))
            return {"embedding": mean_over(encoded.states, encoded.mask)}

        empty = {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
        return self.in_sub_batches(encode, columns, self.lengths(columns), empty)

    def pairs(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, Any]:
        columns = self.read(source)
        tokenizer = self.target_tokenizer
        labels = tokenizer.with_template(
            tokenizer.tokenize(self.limits.cut(target)), self.scored_tokens
        )
        ids = labels[:, :-1]
        # The empty translation of a blank text has the score 0, as in the search.
        counts = ~(columns["is_blank"] & (target == ""))
        # Nor are forced tokens scored, such as the code of the target's language.
        positions = tf.ragged.range(labels.row_lengths()).values
        is_free = positions >= len(tokenizer.template.prefix)
        is_scored = labels.with_values(tf.gather(counts, labels.value_rowids()) & is_free)
        return {**columns, "target": self.with_start(ids), "labels": labels, "is_scored": is_scored}


class TreeTranslationModule(TranslationModule):
    """Translates sentences in CoNLL-U, the output format of parsers.

    A string is a sentence, see `parse_conllu`. A string without the line of a word is plain text,
    whose words are in no tree; neither are words whose heads lead to no root.
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
        # A word without a token takes up space in its tree.
        return tf.maximum(super().lengths(columns), columns["heads"].row_lengths())

    def model_inputs(self, part: dict[str, Any]) -> Tensors:
        inputs = super().model_inputs(part)
        sizes, heads = part["word_sizes"], part["heads"]
        return {**inputs, **tree_inputs(self.source_tokenizer, inputs["source"], sizes, heads)}

    def padding_of(self, name: str) -> int:
        return NO_HEAD if name == "source_heads" else super().padding_of(name)


def reads_trees(config: Any) -> bool:
    """Returns whether a model with this config reads CoNLL-U."""
    return getattr(config, "reads_trees", False)


def tree_inputs(
    tokenizer: Tokenizer,
    ids: tf.Tensor,
    word_sizes: tf.RaggedTensor,
    heads: tf.RaggedTensor,
) -> Tensors:
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

    The result equals that of `read_sentences`, but no input is an error, because a graph cannot
    report errors: a string without the line of a word is plain text; other lines are skipped; a
    head that is not a number, or that belongs to a word with a wrong number, becomes `NO_HEAD`.

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
