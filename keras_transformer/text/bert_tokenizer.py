"""WordPiece tokenizer of BERT and the models that share its rules."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_integer,
    require_positive_integer,
)
from keras_transformer._utils.errors import UserError
from keras_transformer.text.bert_characters import (
    CHINESE,
    NONSPACING,
    PUNCTUATION,
    REMOVED,
    WHITE_SPACE,
)
from keras_transformer.text.pretrained import PretrainedTokenizer, read_template
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template
from keras_transformer.text.wordpiece_tokenizer import CONTINUATION, make_matcher

# The text is cleaned, so that no word contains it: a word that becomes it is unknown.
_NO_WORD = "\x01"
# `detokenize` writes no space before them.
_CLOSING = tuple(".?!,")


class BertTokenizer(PretrainedTokenizer, registered_name="bert"):
    """Tokenizer of BERT, DistilBERT, MiniLM and other models with a `vocab.txt`.

    A text is split into words as by Hugging Face's tokenizers: control characters are removed,
    Chinese characters and punctuation become words, and if the model is uncased, accents are
    removed and letters lower-cased. Each word is split into the longest known pieces. A word with
    more than `max_characters` characters, or with an unknown one, becomes the unknown id.

    >>> tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "house", "##s", "."]
    >>> special_ids = SpecialIds(padding=0, unknown=1, start=2, end=3)
    >>> tokenizer = BertTokenizer(tokens, special_ids, Template((2,), (3,)), controls=(2, 3))
    >>> tokenizer.with_template(tokenizer.tokenize(["The Houses."])).to_list()
    [[2, 4, 5, 6, 7, 3]]
    >>> tokenizer.detokenize([[2, 4, 5, 6, 7, 3]]).numpy()
    array([b'the houses.'], dtype=object)

    Reference: Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers".

    Args:
        tokens: Token of each id, those inside a word with "##".
        special_ids: Special ids of the checkpoint.
        template: Ids around each text, such as `[CLS] … [SEP]`.
        controls: Further ids that tokenization never produces, such as `[MASK]`.
        lowercase: Whether letters are lower-cased. Default True.
        strip_accents: Whether accents are removed. Default: as `lowercase`.
        splits_chinese: Whether each Chinese character is a word. Default True.
        max_characters: Longest word that is split into pieces. Default 100.
        clean_up: Whether `detokenize` removes spaces before contractions.
    """

    file_name: ClassVar[str | None] = "vocabulary.txt"

    def __init__(
        self,
        tokens: Sequence[str],
        special_ids: SpecialIds,
        template: Template | None = None,
        controls: Iterable[int] = (),
        lowercase: bool = True,
        strip_accents: bool | None = None,
        splits_chinese: bool = True,
        max_characters: int = 100,
        clean_up: bool = False,
    ) -> None:
        self._tokens = tuple(tokens)
        self._controls = tuple(require_integer("controls", each, minimum=0) for each in controls)
        self._lowercase = require_boolean("lowercase", lowercase)
        self._strip_accents = require_boolean(
            "strip_accents", lowercase if strip_accents is None else strip_accents
        )
        self._splits_chinese = require_boolean("splits_chinese", splits_chinese)
        self._max_characters = require_positive_integer("max_characters", max_characters)
        for number, token in enumerate(self._tokens):
            if "\n" in token:
                raise UserError(f"The token {number} contains a line break: {token!r}.")
        if len(set(self._tokens)) != len(self._tokens):
            raise UserError("Two tokens are equal.")
        without_text = {*special_ids.ids, *self._controls, *(template or Template()).ids}
        pieces = [
            None if number in without_text or not _is_piece(token) else token
            for number, token in enumerate(self._tokens)
        ]
        texts = [
            None if number in without_text else _text(token)
            for number, token in enumerate(self._tokens)
        ]
        super().__init__(self._tokens, texts, special_ids, template, clean_up)
        with tf.init_scope():
            self._matcher: Any = make_matcher(pieces, special_ids.unknown)

    def _split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        words = self._split_words(strings)
        is_long = tf.strings.length(words.values, unit="UTF8_CHAR") > self._max_characters
        words = words.with_values(tf.where(is_long, _NO_WORD, words.values))
        return self._matcher.tokenize(words).merge_dims(-2, -1)

    def _split_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns the normalized words `[B, None]` of strings `[B]`."""
        import tensorflow_text

        strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
        strings = tf.strings.regex_replace(strings, REMOVED, "")
        if self._splits_chinese:
            strings = tf.strings.regex_replace(strings, f"({CHINESE})", r" \1 ")
        if self._strip_accents:
            strings = tensorflow_text.normalize_utf8(strings, "NFD")
            strings = tf.strings.regex_replace(strings, NONSPACING, "")
        if self._lowercase:
            # Otherwise a sigma at the end of a word becomes "ς".
            strings = tf.strings.regex_replace(strings, "Σ", "σ")
            strings = tf.strings.lower(strings, encoding="utf-8")
        strings = tf.strings.regex_replace(strings, WHITE_SPACE, " ")
        strings = tf.strings.regex_replace(strings, f"({PUNCTUATION})", r" \1 ")
        return tf.strings.split(strings)

    def _finish(self, strings: tf.Tensor) -> tf.Tensor:
        return super()._finish(tf.strings.regex_replace(strings, r"\A ", ""))

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "controls": list(self._controls),
            "lowercase": self._lowercase,
            "strip_accents": self._strip_accents,
            "splits_chinese": self._splits_chinese,
            "max_characters": self._max_characters,
        }

    def to_bytes(self) -> bytes:
        return "".join(token + "\n" for token in self._tokens).encode()

    @classmethod
    def from_bytes(cls, content: bytes, settings: dict[str, Any], special_ids: SpecialIds) -> Self:
        try:
            tokens = content.decode("utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            raise UserError("not UTF-8.", where=cls.file_name) from error
        return cls(tokens, special_ids, **read_template(settings))


def _is_piece(token: str) -> bool:
    """Returns whether a word can have a token as a piece; a word has no white space."""
    return bool(token.removeprefix(CONTINUATION)) and not any(
        character.isspace() or character == "\0" for character in token
    )


def _text(token: str) -> bytes:
    """Returns the text that a token adds, with the space before it."""
    if token.startswith(CONTINUATION):
        return token.removeprefix(CONTINUATION).encode()
    return token.encode() if token.startswith(_CLOSING) else f" {token}".encode()
