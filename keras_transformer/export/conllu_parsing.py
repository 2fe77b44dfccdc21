"""CoNLL-U in strings, read in the graph."""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.text import NO_HEAD

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
