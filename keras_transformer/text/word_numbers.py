"""Which word of a text each token belongs to."""

import tensorflow as tf

from keras_transformer.text.tokenizer import END_ID, PADDING_ID, START_ID

#: In rows of the heads of words, what stands for a word that is not there: 0 is the root's head.
NO_HEAD = -1


def number_words(tokenizer, ids, word_sizes):
    """Returns the number, from 1, of the word that each id belongs to: int32 `[B, S]`; a graph op.

    The one rule for data and exports: the text is the words with a space between them, and both
    ids and words say how much of it they take up, so that adding up tells where each of them ends.
    It is exact for all tokenizers of the package and however a text is cut, at random too, as no
    piece reaches from one word into the next.

    Args:
        tokenizer: the `Tokenizer` that gave the ids.
        ids: int32 `[B, S]`, of texts or of their beginnings, with or without END, padded.
        word_sizes: int32 `[B, W]`, of the texts' words by `tokenizer.word_sizes`, padded with 0.

    Ids of no word, such as END, padding and what comes after the last word, get 0.

    Example:

    >>> from keras_transformer.text import ByteTokenizer
    >>> tokenizer = ByteTokenizer()
    >>> sizes = tokenizer.word_sizes(tf.ragged.constant([["ja", "so"]])).to_tensor()
    >>> number_words(tokenizer, tokenizer.tokenize(["ja so"]).to_tensor(), sizes).numpy()
    array([[1, 1, 2, 2, 2]], dtype=int32)
    """
    ids = tf.convert_to_tensor(ids)
    places = tf.cumsum(tf.gather(tokenizer.token_sizes, ids), axis=1) - 1  # where each id ends
    # One place more, as a search among none is an error.
    ends = tf.cumsum(tf.pad(word_sizes, [[0, 0], [0, 1]]), axis=1)  # [B, W + 1]
    numbers = tf.searchsorted(ends, places, side="right") + 1
    is_special = (ids == PADDING_ID) | (ids == START_ID) | (ids == END_ID)
    return tf.where(is_special | (numbers > tf.shape(word_sizes)[1]), 0, numbers)
