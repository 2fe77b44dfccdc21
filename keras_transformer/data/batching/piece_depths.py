"""From the depths of words to those of the pieces that a tokenizer cuts them into."""

import numpy as np
import tensorflow as tf


def piece_depths(trees, tokenizer):
    """Returns, for each tree, the depths of the pieces of its text: a list of int32 arrays.

    Every piece takes the depth of its word. Which pieces are a word's, the number of pieces before
    and after it tells: those of the first n words are counted for each n. That needs a tokenizer
    whose pieces end with the words, as all of the package do.

    Args:
        trees: `DependencyTree`s.
        tokenizer: the `Tokenizer` of their texts.

    Example:

    >>> from keras_transformer.data import DependencyTree
    >>> from keras_transformer.text import ByteTokenizer
    >>> piece_depths([DependencyTree(("ja", "so"), heads=(0, 1))], ByteTokenizer())
    [array([1, 1, 2, 2, 2], dtype=int32)]
    """
    return [_of_tree(tree, tokenizer) for tree in trees]


def _of_tree(tree, tokenizer):
    beginnings = [" ".join(tree.words[:n]) for n in range(1, len(tree.words) + 1)]
    rows = tokenizer.tokenize(tf.constant(beginnings))
    lengths = rows.row_lengths().numpy()
    whole = rows[-1].numpy()
    for row, beginning in zip(rows.to_list(), beginnings, strict=True):
        if row != whole[: len(row)].tolist():
            raise ValueError(
                f"The tokenizer {tokenizer.registered_name!r} cuts {tree.text!r} across the end of "
                f"{beginning!r}: no piece there has one depth. Use one whose pieces end with the "
                "words."
            )
    return np.repeat(np.array(tree.depths(), np.int32), np.diff(lengths, prepend=0))
