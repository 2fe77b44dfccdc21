"""Byte-level BPE tokenizer of GPT-2, RoBERTa, BART, Llama 3, Qwen and others."""

from typing import Any, ClassVar, Self

import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_positive_integer,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.text.byte_pair_model import BYTE_CHARACTERS, token_bytes
from keras_transformer.text.pretrained import PretrainedTokenizer, read_template
from keras_transformer.text.sentencepiece_pieces import CONTROL, ONLY_JOINED, parse_model
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceOps
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template

# White space as Unicode has it; RE2's "\s" is that of ASCII.
_SPACE = r"\t-\r\x{85}\pZ"
_GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\pL+| ?\pN+| ?[^{_SPACE}\pL\pN]+|[{_SPACE}]+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\pL\pN]?\pL+|NUMBER"
    rf"| ?[^{_SPACE}\pL\pN]+[\r\n]*|[{_SPACE}]*[\r\n]+|[{_SPACE}]+"
)
# The last white space before a word belongs to the word. RE2 has no lookahead, which other
# libraries use for that; instead, a byte that is not UTF-8 and matches no pattern is inserted. The
# same byte then separates the words.
_CUT = b"\xff"
_CUT_BEFORE_LAST = rf"([{_SPACE}])([{_SPACE}][^{_SPACE}])"
_CUT_BEFORE_LAST_IN_LINE = rf"([{_SPACE}])([\t\x0b\x0c\x{{85}}\pZ][^{_SPACE}])"
#: For each way to split texts: the pattern of words, and the pattern before which words are cut.
PATTERNS: dict[str, tuple[str, str]] = {
    "gpt2": (_GPT2, _CUT_BEFORE_LAST),
    "gpt2_digits": (
        _GPT2.replace(r" ?\pN+", r"\pN"),
        rf"([{_SPACE}])([{_SPACE}][^{_SPACE}\pN])",
    ),
    "llama3": (_LLAMA3.replace("NUMBER", r"\pN{1,3}"), _CUT_BEFORE_LAST_IN_LINE),
    "qwen2": (_LLAMA3.replace("NUMBER", r"\pN"), _CUT_BEFORE_LAST_IN_LINE),
}


class BytePairTokenizer(PretrainedTokenizer, registered_name="byte_pair"):
    """Byte-level BPE tokenizer, such as those of GPT-2, RoBERTa, BART, Llama 3 and Qwen.

    A text is split into words by a pattern, and each word into bytes, which are merged to tokens.
    Every text is restored exactly unless `normalizes` is set. There are no unknown tokens.
    `keras_transformer.hub.load_tokenizer` makes this tokenizer from the files of a checkpoint.

    References: Radford et al. 2019, "Language models are unsupervised multitask learners", section
    2.2; Sennrich et al. 2016, "Neural machine translation of rare words with subword units".

    Args:
        model: Bytes of a model, from `byte_pair_model`: the piece n has the id n.
        vocabulary_size: Number of ids.
        special_ids: Special ids of the checkpoint.
        template: Ids around each text. Defaults to the end id after it.
        pattern: How texts are split into words, a name in `PATTERNS`. Default "gpt2".
        normalizes: Whether texts are brought to Unicode normalization form C. Default False.
        adds_space: Whether a text that does not begin with a space gets one. Default False.
        whole_words: Whether a word that is a token is not merged from bytes. Default False.
        clean_up: Whether `detokenize` removes spaces before punctuation. Default False.
    """

    file_name: ClassVar[str | None] = "sentencepiece.model"

    def __init__(
        self,
        model: bytes,
        vocabulary_size: int,
        special_ids: SpecialIds,
        template: Template | None = None,
        pattern: str = "gpt2",
        normalizes: bool = False,
        adds_space: bool = False,
        whole_words: bool = False,
        clean_up: bool = False,
    ) -> None:
        self._model = bytes(model)
        proto = parse_model(self._model)
        size = require_positive_integer("vocabulary_size", vocabulary_size)
        if size > len(proto.pieces):
            expected = f"at most {len(proto.pieces)}, the number of pieces"
            raise ArgumentError("vocabulary_size", expected, size)
        pieces = proto.pieces[:size]
        try:
            texts = [_text(each.piece, each.type == each.CONTROL) for each in pieces]
        except UnicodeEncodeError as error:
            raise UserError("The pieces of the model are not bytes in Latin-1.") from error
        tokens = [
            each.piece.removeprefix(CONTROL).removeprefix(ONLY_JOINED)
            if each.type == each.CONTROL
            else "".join(BYTE_CHARACTERS[byte] for byte in text or b"")
            for each, text in zip(pieces, texts, strict=True)
        ]
        super().__init__(tokens, texts, special_ids, template, clean_up)
        self._pattern: str = require_choice("pattern", pattern, PATTERNS)
        self._normalizes = require_boolean("normalizes", normalizes)
        self._adds_space = require_boolean("adds_space", adds_space)
        self._whole_words = require_boolean("whole_words", whole_words)
        known = {text[0] for text in texts if text and len(text) == 1}
        dropped = [f"\\x{{{byte:02x}}}" for byte in range(256) if byte not in known]
        # As in Hugging Face, bytes without a token, such as control characters, are dropped.
        self._dropped: str | None = f"[{''.join(dropped)}]" if dropped else None
        with tf.init_scope():
            try:
                self._ops = SentencePieceOps(self._model)
            except tf.errors.OpError as error:
                raise UserError("These bytes are not a SentencePiece model.") from error
            self._numbers: Any = None
            if whole_words:
                keys = {t: n for n, t in enumerate(texts) if t and n not in special_ids.ids}
                initializer = tf.lookup.KeyValueTensorInitializer(
                    tf.constant(list(keys)), tf.constant(list(keys.values()), tf.int32)
                )
                self._numbers = tf.lookup.StaticHashTable(initializer, -1)

    def _split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        words = self._split_words(strings)
        # Words repeat: each different one is merged once.
        different, places = tf.unique(words.values)
        ids = self._ids_of_words(different)
        return words.with_values(tf.gather(ids, places)).merge_dims(-2, -1)

    def _split_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns the words `[B, None]` of strings `[B]`."""
        strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
        if self._normalizes:
            import tensorflow_text

            strings = tensorflow_text.normalize_utf8(strings, "NFC")
        if self._adds_space:
            has_space = tf.strings.regex_full_match(strings, r"(?s)( .*)?")
            strings = tf.where(has_space, strings, tf.strings.join([" ", strings]))
        pattern, last = PATTERNS[self._pattern]
        strings = tf.strings.regex_replace(strings, last, rb"\1" + _CUT + rb"\2")
        strings = tf.strings.regex_replace(strings, pattern, rb"\0" + _CUT)
        words = tf.strings.split(strings, _CUT)
        return tf.ragged.boolean_mask(words, words.with_values(words.values != ""))

    def _ids_of_words(self, words: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.unicode_transcode(words, "ISO-8859-1", "UTF-8")
        if self._dropped is not None:
            characters = tf.strings.regex_replace(characters, self._dropped, "")
        ids = self._ops.split(characters)
        if self._numbers is None:
            return ids
        numbers = self._numbers.lookup(words)
        merged = tf.ragged.boolean_mask(
            ids, ids.with_values(tf.gather(numbers < 0, ids.value_rowids()))
        )
        whole = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(numbers, numbers >= 0), tf.cast(numbers >= 0, tf.int64), validate=False
        )
        return tf.concat([whole, merged], axis=1)

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "vocabulary_size": self.vocabulary_size,
            "pattern": self._pattern,
            "normalizes": self._normalizes,
            "adds_space": self._adds_space,
            "whole_words": self._whole_words,
        }

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, content: bytes, settings: dict[str, Any], special_ids: SpecialIds) -> Self:
        return cls(content, special_ids=special_ids, **read_template(settings))


def _text(name: str, is_control: bool) -> bytes | None:
    """Returns the bytes of a piece, or None if it has none."""
    if not is_control:
        return name.encode("latin-1")
    if name.startswith(CONTROL):
        return None
    token = name.removeprefix(ONLY_JOINED)
    content = token_bytes(token)
    return token.encode() if content is None else content
