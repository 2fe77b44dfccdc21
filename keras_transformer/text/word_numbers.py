"""Assignment of tokens to the words of their text."""

import tensorflow as tf

from keras_transformer.text.tokenizer import Tokenizer

#: Marks a missing word in rows of the heads of words; 0 is the head of the root.
NO_HEAD = -1


def number_words(tokenizer: Tokenizer, ids: tf.Tensor, word_sizes: tf.Tensor) -> tf.Tensor:
    """Returns the number, from 1, of the word that each id belongs to: int32 `[B, S]`.

    The text is the words joined with a space. Tokens and words have sizes in the same unit, so
    their cumulative sums show where each ends. The result is exact for all tokenizers of this
    package and for random segmentations too, because no piece extends over the end of a word. Ids
    that belong to no word, such as end, padding and ids after the last word, get 0.

    Args:
        tokenizer: `Tokenizer` that produced the ids.
        ids: int32 `[B, S]`. Padded ids of texts or of their beginnings, with or without end ids.
        word_sizes: int32 `[B, W]`. Result of `tokenizer.word_sizes` for the words, padded with 0.

    >>> from keras_transformer.text import ByteTokenizer
    >>> tokenizer = ByteTokenizer()
    >>> sizes = tokenizer.word_sizes(tf.ragged.constant([["ja", "so"]])).to_tensor()
    >>> number_words(tokenizer, tokenizer.tokenize(["ja so"]).to_tensor(), sizes).numpy()
    array([[1, 1, 2, 2, 2]], dtype=int32)
    """
    ids = tf.convert_to_tensor(ids)
    places = tf.cumsum(tf.gather(tokenizer.token_sizes, ids), axis=1) - 1  # where each id ends
    # One column more, because `tf.searchsorted` fails on none.
    ends = tf.cumsum(tf.pad(word_sizes, [[0, 0], [0, 1]]), axis=1)  # [B, W + 1]
    numbers = tf.searchsorted(ends, places, side="right") + 1
    special = tokenizer.special_ids
    is_special = (ids == special.padding) | (ids == special.start) | (ids == special.end)
    return tf.where(is_special | (numbers > tf.shape(word_sizes)[1]), 0, numbers)
