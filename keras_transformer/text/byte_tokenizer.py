"""Bytes as pieces."""

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.text.tokenizer import FIRST_PIECE_ID, Tokenizer


class ByteTokenizer(Tokenizer, registered_name="bytes"):
    """Each byte of a string is a piece: the id of byte `b` is `b + 4`, and there are 260 ids.

    Nothing is learned, nothing is unknown, and every string comes back byte for byte, valid UTF-8
    or not. Sequences are four to five times as long as with a learned vocabulary of 8,000. Only
    core TensorFlow ops are used, so that an exported model needs no tensorflow-text.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer.tokenize(["Hi", "é"]).to_list()
    [[76, 109], [199, 173]]
    >>> tokenizer.detokenize([[2, 76, 109, 3, 0, 0]]).numpy()
    array([b'Hi'], dtype=object)
    >>> tokenizer.tokens([199, 76]).numpy()
    array([b'<0xC3>', b'H'], dtype=object)

    Reference: Xue et al. 2022, "ByT5: Towards a token-free future with pre-trained byte-to-byte
    models", section 3.1.
    """

    def __init__(self):
        super().__init__(
            chr(byte) if 0x20 < byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256)
        )
        with tf.init_scope():
            self._byte_strings = tf.constant([bytes([byte]) for byte in range(256)])

    def normalize(self, strings):
        return tf.convert_to_tensor(strings, tf.string)

    def _split(self, strings):
        values = tf.io.decode_raw(tf.strings.reduce_join(strings), tf.uint8)
        return tf.RaggedTensor.from_row_lengths(
            tf.cast(values, tf.int32) + FIRST_PIECE_ID,
            row_lengths=tf.cast(tf.strings.length(strings), tf.int64),
            validate=False,
        )

    def _join(self, ids):
        characters = tf.gather(self._byte_strings, ids.values - FIRST_PIECE_ID)
        return tf.strings.reduce_join(ids.with_values(characters), axis=-1)

    def word_sizes(self, words):
        """Bytes; a space counts with the word after it, so that the first word has none."""
        sizes = tf.strings.length(words.values) + 1
        is_first = tf.ragged.range(words.row_lengths()).values == 0
        return words.with_values(sizes - tf.cast(is_first, tf.int32))

    def _sizes_of_pieces(self):
        return [1] * 256

    @classmethod
    def from_bytes(cls, content, settings, origin):
        return cls()

    @classmethod
    def learn(cls, read_passages, vocabulary_size, report):
        tokenizer = cls()
        if vocabulary_size < tokenizer.vocabulary_size:
            raise UserError(
                f"`vocabulary_size` must be at least {tokenizer.vocabulary_size} for 'bytes': it "
                f"always has that many ids; got {vocabulary_size}."
            )
        return tokenizer
