"""Tokenizer whose pieces are bytes."""

from typing import Any, Self

import tensorflow as tf

from keras_transformer._utils.errors import ArgumentError
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.tokenizer import Report, Strings, Tokenizer


class ByteTokenizer(Tokenizer, registered_name="bytes"):
    """Tokenizer with a piece for each byte: by default byte `b` has id `b + 4`, of 260 ids.

    It learns nothing and has no unknown ids, and every string is restored byte for byte, valid
    UTF-8 or not. Sequences are four to five times as long as with a learned vocabulary of 8,000
    ids. An exported model with this tokenizer needs no tensorflow-text, because it uses only core
    TensorFlow operations.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer.tokenize(["Hi", "é"]).to_list()
    [[76, 109], [199, 173]]
    >>> tokenizer.detokenize([[2, 76, 109, 3, 0, 0]]).numpy()
    array([b'Hi'], dtype=object)
    >>> tokenizer.tokens([199, 76]).numpy()
    array([b'<0xC3>', b'H'], dtype=object)

    Reference: Xue et al. 2022, "ByT5: Towards a token-free future with pre-trained byte-to-byte
    models", section 3.1.

    Args:
        special_ids: The bytes take the other ids, in order. Defaults to `SpecialIds()`.
    """

    def __init__(self, special_ids: SpecialIds | None = None) -> None:
        pieces = (chr(byte) if 0x20 < byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256))
        super().__init__(pieces, special_ids)
        first = int(self.piece_ids[0])
        # The id of byte 0 if the ids of the bytes are consecutive, else None.
        self._first_id = first if self.piece_ids[-1] == first + 255 else None
        byte_strings = [b""] * self.vocabulary_size
        for byte, piece_id in enumerate(self.piece_ids):
            byte_strings[piece_id] = bytes([byte])
        with tf.init_scope():
            self._byte_strings = tf.constant(byte_strings)  # [V]

    def normalize(self, strings: Strings) -> tf.Tensor:
        return tf.convert_to_tensor(strings, tf.string)

    def _split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        values = tf.io.decode_raw(tf.strings.reduce_join(strings), tf.uint8)
        values = tf.cast(values, tf.int32)
        first = self._first_id
        ids = tf.gather(self.piece_ids, values) if first is None else values + first
        lengths = tf.cast(tf.strings.length(strings), tf.int64)
        return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        characters = tf.gather(self._byte_strings, ids.values)
        return tf.strings.reduce_join(ids.with_values(characters), axis=-1)

    def word_sizes(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the bytes of each word, with the space before it."""
        sizes = tf.strings.length(words.values) + 1
        is_first = tf.ragged.range(words.row_lengths()).values == 0
        return words.with_values(sizes - tf.cast(is_first, tf.int32))

    def _sizes_of_pieces(self) -> list[int]:
        return [1] * 256

    @classmethod
    def from_bytes(cls, content: bytes, settings: dict[str, Any], special_ids: SpecialIds) -> Self:
        return cls(special_ids)

    @classmethod
    def check_learning(cls, size: int, special_ids: SpecialIds) -> int:
        fixed_size = 256 + len(special_ids.ids)
        if size < fixed_size:
            expected = f"at least {fixed_size} for 'bytes', the number of its ids"
            raise ArgumentError("vocabulary_size", expected, size)
        return fixed_size

    @classmethod
    def learn(cls, passages: list[str], size: int, special_ids: SpecialIds, report: Report) -> Self:
        return cls(special_ids)
