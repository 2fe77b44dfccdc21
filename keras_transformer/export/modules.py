"""Which module turns which kind of model into functions over strings."""

import dataclasses
import types
from typing import NamedTuple

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import BeamSearch, GreedySearch, SearchSettings
from keras_transformer.export.text_module import (
    STRINGS,
    TextGenerator,
    TextLimits,
    TextModule,
    is_blank,
    mean_over,
    padded_to,
    token_log_probabilities,
    with_end,
)
from keras_transformer.text import NO_HEAD, PADDING_ID, START_ID, number_words

# The line of a word: ten columns, of which the first is a whole number. Comments, the lines of
# multiword tokens (3-4) and of empty nodes (8.1) are none.
_WORD = "([1-9][0-9]{0,8})\t([^\t]+)" + "\t[^\t]+" * 4 + "\t([^\t]+)" + "\t[^\t]+" * 3 + "\r?"
_HEAD = "0|[1-9][0-9]{0,8}"


class ParsedTexts(NamedTuple):
    """What strings say, B of them.

    Attributes:
        texts: string `[B]`, the words with a space between them, or the string if it is plain text.
        words: ragged strings `[B, W]`; none of plain text.
        heads: ragged int32 `[B, W]`, the number of the word that each depends on, 0 for a root,
            `NO_HEAD` for what is none.
    """

    texts: tf.Tensor
    words: tf.RaggedTensor
    heads: tf.RaggedTensor


def parse_conllu(strings, most_words):
    """Returns the `ParsedTexts` of strings `[B]`, each a sentence as CoNLL-U or as plain text.

    What `read_sentences` reads for training is read alike, with core TensorFlow operations alone.
    Only that nothing is an error here, where nobody could be told: a string without the line of a
    word is plain text; lines that are none are not seen; a head that is no number, or that of a
    word which is not counted as it should be, is `NO_HEAD`.

    Args:
        strings: string `[B]`, in UTF-8; other bytes of CoNLL-U become U+FFFD.
        most_words: words of a sentence at most; what comes after them is not seen.

    Example:

    >>> line = "{}\\t{}\\t_\\t_\\t_\\t_\\t{}\\t_\\t_\\t_"
    >>> sentence = "\\n".join([line.format(1, "Dogs", 2), line.format(2, "sleep", 0)])
    >>> parsed = parse_conllu(tf.constant([sentence, "Hello!"]), most_words=100)
    >>> parsed.texts.numpy().tolist(), parsed.heads.to_list()
    ([b'Dogs sleep', b'Hello!'], [[2, 0], []])
    """
    lines = tf.strings.split(
        tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace"), "\n"
    )
    is_word = tf.strings.regex_full_match(lines.values, _WORD)
    lines = tf.ragged.boolean_mask(lines, lines.with_values(is_word))[:, :most_words]
    number, word, head = (
        tf.strings.regex_replace(lines.values, _WORD, rf"\{group}") for group in (1, 2, 3)
    )
    is_counted = tf.strings.to_number(number, tf.int32) == _places(lines)
    is_head = tf.strings.regex_full_match(head, _HEAD) & is_counted
    heads = tf.strings.to_number(tf.where(is_head, head, str(NO_HEAD)), tf.int32)
    words = lines.with_values(word)
    joined = tf.strings.reduce_join(words, axis=-1, separator=" ")
    texts = tf.where(lines.row_lengths() > 0, joined, strings)
    return ParsedTexts(texts, words, lines.with_values(heads))


def _places(rows):
    """The place of each value of ragged rows in its row, from 1 on, flat."""
    return tf.ragged.range(tf.cast(rows.row_lengths(), tf.int32)).values + 1


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

        empty = {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
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

        empty = {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
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


class EncodingModule(TextModule):
    """Turns strings into vectors with a `TextEncoder`; with a head, into classes as well.

    Args:
        trained, limits, stored_dtype: see `TextModule`.
    """

    def __init__(self, trained, limits, stored_dtype=None):
        if trained.model.config.pooling == "none":
            raise UserError("A TextEncoder with pooling='none' has no vector for a text to export.")
        count = trained.model.config.num_classes
        if count is not None:
            if trained.labels and len(trained.labels) != count:
                raise UserError(
                    f"The model tells {count} classes apart, but there are {len(trained.labels)} "
                    "labels."
                )
            names = trained.labels or tuple(str(number) for number in range(count))
            self.labels = tf.constant(names)
        super().__init__(trained, limits, stored_dtype)

    def offers(self):
        texts = {"text": STRINGS}
        offered = {"serving_default": (self.encode, texts), "encode": (self.encode, texts)}
        if self.model.config.num_classes is not None:
            offered["classify"] = (self.classify, texts)
        return offered

    def encode(self, text):
        """A vector `[B, M]` for each of `text` `[B]`."""

        def encode(part):
            return {"embedding": tf.cast(self.model.vectors(part["ids"].to_tensor()), tf.float32)}

        return self._by_length(
            encode, text, {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
        )

    def classify(self, text):
        """The label `[B]` of each of `text` `[B]`, and the probabilities `[B, C]` of all."""

        def classify(part):
            logits = self.model({"source": part["ids"].to_tensor()}, training=False)
            return {"probabilities": tf.nn.softmax(tf.cast(logits, tf.float32))}

        empty = {"probabilities": tf.zeros([0, self.model.config.num_classes])}
        found = self._by_length(classify, text, empty)
        return {**found, "label": tf.gather(self.labels, tf.argmax(found["probabilities"], axis=1))}

    def _by_length(self, function, text, empty):
        ids = with_end(self.ids(self.source_tokenizer, text, self.limits.tokens - 1))
        return self.by_length(function, {"ids": ids}, ids.row_lengths(), empty)


#: Tokens that a language model adds to a text, if nothing else is asked for.
CONTINUATION = 256


def make_text_module(trained, search=None, limits=None, xla=False, stored_dtype=None):
    """Makes the `TextModule` of a `TrainedModel`; see `export_model` for the arguments."""
    if hasattr(trained.model, "unpacked"):
        trained = dataclasses.replace(trained, model=trained.model.unpacked())
    model = trained.model
    if not hasattr(model, "step"):
        if search is not None or xla:
            raise UserError(f"A {type(model).__name__} writes no text: there is nothing to search.")
        limits = _source_limits(model, limits)
        return EncodingModule(trained, limits, stored_dtype)
    if search is None:
        search = trained.search_settings()
    if isinstance(search, SearchSettings):
        search = make_search(model, search)
    has_source = hasattr(model, "encode")
    _require_fit(model, search, has_source)
    if has_source:
        limits = _source_limits(model, limits)
        kind = TreeTranslationModule if reads_trees(model.config) else TranslationModule
        return kind(trained, search, limits, xla, stored_dtype)
    limits = _prompt_limits(model, search, limits)
    return ContinuationModule(trained, search, limits, xla, stored_dtype)


def reads_trees(config):
    """Whether a model of this config takes CoNLL-U."""
    return getattr(config, "reads_trees", False)


def _require_fit(model, search, has_source):
    """Raises a `UserError` for what could only fail, or answer otherwise, later."""
    if not isinstance(search, (BeamSearch, GreedySearch)):
        raise UserError(
            f"An export searches by BeamSearch or GreedySearch; got {search!r}. To sample, call "
            "its signature `sample`."
        )
    if search.needs_attention and not has_source:
        raise UserError(
            f"A {type(model).__name__} has no source, so there is no coverage of one to punish: "
            "leave out the `coverage_penalty`."
        )


def _source_limits(model, limits):
    """The limits of texts that are read: those given, or what the model has been made for."""
    config = model.config
    end = min(config.length_limits(config.source_fields).values(), default=None)
    longest = config.max_length if end is None else min(config.max_length, end)
    return _require_room(limits or TextLimits(tokens=longest), end, end)


def _prompt_limits(model, search, limits):
    """The limits of texts that are gone on with.

    What is given and what is added share the model's length; however much may be added, half of it
    is for what is given.
    """
    end = model.position_limit
    longest = model.config.max_length if end is None else min(model.config.max_length, end)
    tokens = max(1, longest - search.lengths.maximum, longest // 2)
    # A prompt must leave room for one token.
    return _require_room(limits or TextLimits(tokens=tokens), end, end and end - 1)


def _require_room(limits, end, most):
    if most is not None and limits.tokens > most:
        raise UserError(
            f"The model has learned {end} positions: texts may have {most} tokens at most, not "
            f"{limits.tokens}."
        )
    return limits


def make_search(model, settings):
    """The search that `SearchSettings` mean for a model."""
    longest = model.config.max_length
    if hasattr(model, "encode"):
        return settings.make(longest)
    return settings.make(min(CONTINUATION, longest // 2), has_source=False)
