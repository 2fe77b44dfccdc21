"""SentencePiece tokenizer of a pretrained model, with the ids of its checkpoint."""

import re
from typing import Any, ClassVar, Self

import tensorflow as tf

from keras_transformer._utils.checks import require_boolean, require_positive_integer
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.text.pretrained import PretrainedTokenizer, read_template
from keras_transformer.text.sentencepiece_pieces import CONTROL, ONLY_JOINED, parse_model
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceOps
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template

# A language code before a text, as multilingual Marian models read it.
_CODE = r"(?s)\A(>>.*?<<)(.*)\z"
# White space at both ends, which the tokenizers with `looks_up` remove from a text.
_ENDS = r"\A[\s\pZ\x0b\x1c-\x1f\x{85}]+|[\s\pZ\x0b\x1c-\x1f\x{85}]+\z"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class PretrainedSentencePieceTokenizer(
    PretrainedTokenizer, registered_name="pretrained_sentencepiece"
):
    """Tokenizer with a SentencePiece model of a pretrained model, such as Marian, NLLB or T5.

    The model normalizes texts as it did when the checkpoint was trained, so `detokenize` may return
    a text that differs from the one that was tokenized. `keras_transformer.hub.load_tokenizer`
    makes this tokenizer from the files of a checkpoint.

    Args:
        model: Bytes of a model, arranged by `arrange_pieces`: the piece n has the id n.
        vocabulary_size: Number of ids. Pieces of the model after them become the unknown id.
        special_ids: Special ids of the checkpoint.
        template: Ids around each text. Defaults to the end id after it.
        clean_up: Whether `detokenize` removes spaces before punctuation.
        looks_up: Whether a text that the model cannot spell is looked up in the vocabulary, which
            may have more pieces than the model: a vocabulary of two languages and a model of one.
        reads_code: Whether a text may begin with the token of a language, such as ">>fra<<".
        adds_space: Whether a text that does not begin with a space gets one.
        white_space: Characters that become spaces before the model normalizes a text.
    """

    file_name: ClassVar[str | None] = "sentencepiece.model"

    def __init__(
        self,
        model: bytes,
        vocabulary_size: int,
        special_ids: SpecialIds,
        template: Template | None = None,
        clean_up: bool = False,
        looks_up: bool = False,
        reads_code: bool = False,
        adds_space: bool = False,
        white_space: str = "",
    ) -> None:
        self._model = bytes(model)
        proto = parse_model(self._model)
        size = require_positive_integer("vocabulary_size", vocabulary_size)
        if size > len(proto.pieces):
            expected = f"at most {len(proto.pieces)}, the number of pieces"
            raise ArgumentError("vocabulary_size", expected, size)
        pieces = proto.pieces[:size]
        tokens = [each.piece.removeprefix(CONTROL).removeprefix(ONLY_JOINED) for each in pieces]
        texts = [_text(each.piece, each.type) for each in pieces]
        super().__init__(tokens, texts, special_ids, template, clean_up)
        normalizer = proto.normalizer_spec
        self._adds_space = require_boolean("adds_space", adds_space)
        self._begins_with_space: bool = (
            normalizer.add_dummy_prefix or normalizer.remove_extra_whitespaces or adds_space
        )
        if not isinstance(white_space, str):
            raise ArgumentError("white_space", "text", white_space)
        self._white_space = white_space
        self._looks_up = require_boolean("looks_up", looks_up)
        self._reads_code = require_boolean("reads_code", reads_code)
        with tf.init_scope():
            try:
                self._ops = SentencePieceOps(self._model)
            except tf.errors.OpError as error:
                raise UserError("These bytes are not a SentencePiece model.") from error
            self._numbers: Any = None
            if looks_up:
                keys = {tokens[n]: n for n, text in enumerate(texts) if text is not None}
                self._numbers = _lookup_table(keys, special_ids.unknown)
            if reads_code:
                codes = {token: n for n, token in enumerate(tokens) if token.startswith(">>")}
                self._codes: Any = _lookup_table(codes, special_ids.unknown)

    def _split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
        if self._reads_code:
            has_code = tf.strings.regex_full_match(strings, _CODE)
            codes = tf.boolean_mask(tf.strings.regex_replace(strings, _CODE, r"\1"), has_code)
            strings = tf.where(has_code, tf.strings.regex_replace(strings, _CODE, r"\2"), strings)
            first = tf.RaggedTensor.from_row_lengths(
                self._codes.lookup(codes), tf.cast(has_code, tf.int64), validate=False
            )
            return tf.concat([first, self._split_text(strings)], axis=1)
        return self._split_text(strings)

    def _split_text(self, strings: tf.Tensor) -> tf.RaggedTensor:
        if self._white_space:
            codes = "".join(rf"\x{{{ord(character):X}}}" for character in self._white_space)
            strings = tf.strings.regex_replace(strings, f"[{codes}]", " ")
        if self._adds_space:
            has_space = tf.strings.regex_full_match(strings, r"(?s)([ ▁].*)?")
            strings = tf.where(has_space, strings, tf.strings.join([" ", strings]))
        if self._numbers is not None:
            pieces = self._ops.split(strings, tf.string)
            return pieces.with_values(self._numbers.lookup(pieces.values))
        ids = self._ops.split(strings)
        values = tf.where(ids.values < self.vocabulary_size, ids.values, self.special_ids.unknown)
        return ids.with_values(values)

    def _finish(self, strings: tf.Tensor) -> tf.Tensor:
        if self._looks_up:
            strings = tf.strings.regex_replace(strings, _ENDS, "")
        elif self._begins_with_space:
            strings = tf.strings.regex_replace(strings, r"\A ", "")
        return super()._finish(strings)

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "vocabulary_size": self.vocabulary_size,
            "looks_up": self._looks_up,
            "reads_code": self._reads_code,
            "adds_space": self._adds_space,
            "white_space": self._white_space,
        }

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, content: bytes, settings: dict[str, Any], special_ids: SpecialIds) -> Self:
        return cls(content, special_ids=special_ids, **read_template(settings))


def _text(name: str, kind: int) -> bytes | None:
    """Returns the text of a piece with a given name and type, or None if it has none."""
    if kind == 6 and (byte := _BYTE.fullmatch(name)):
        return bytes([int(byte[1], 16)])
    if name.startswith(CONTROL) or kind == 2:
        return None
    return name.removeprefix(ONLY_JOINED).replace("▁", " ").encode()


def _lookup_table(numbers: dict[str, int], default: int) -> Any:
    keys, values = tf.constant(list(numbers), tf.string), tf.constant([*numbers.values()], tf.int32)
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    return tf.lookup.StaticHashTable(initializer, default)
