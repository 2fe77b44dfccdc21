"""Where tokens lie in the dependency trees of their sentences: depths and distances."""

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_choice
from keras_transformer.layers.attention.relative import UNRELATED

KINDS = ("absolute", "relative", "both")


@keras.saving.register_keras_serializable(package="keras_transformer")
class TreePositions(keras.layers.Layer):
    """Finds the depth of each token in its sentence's tree, and the distance of each two.

    Wang et al. 2019, "Self-Attention with Structural Position Representations", sections on
    absolute and on relative structural positions. See `token_depths` and `token_distances`.

    Args:
        kind: "absolute" for depths, "relative" for distances, "both".

    Call arguments:
        words: int32 `[B, S]`, the number of the word that each token belongs to, counted from 1; 0
            for tokens of no word, such as END and padding.
        heads: int32 `[B, W]`, for each word the number of the one that it depends on, 0 for the
            root; `NO_HEAD` for padding.

    Returns:
        a dictionary with, as asked for, "depths" `[B, S]` and "relations" `[B, S, S]`, int32.

    Example, a sentence of two words, of which the first is two tokens, and END:

    >>> places = TreePositions("both")(tf.constant([[1, 1, 2, 0]]), tf.constant([[2, 0]]))
    >>> places["depths"].numpy().tolist(), places["relations"].shape
    ([[2, 2, 1, 0]], TensorShape([1, 4, 4]))
    """

    def __init__(self, kind, **kwargs):
        super().__init__(**kwargs)
        self.kind = require_choice("kind", kind, KINDS)

    def call(self, words, heads):
        places = {}
        if self.kind in ("absolute", "both"):
            places["depths"] = token_depths(words, heads)
        if self.kind in ("relative", "both"):
            places["relations"] = token_distances(words, heads)
        return places

    def compute_output_spec(self, words, heads):
        spec = {"depths": words.shape, "relations": (*words.shape, words.shape[1])}
        wanted = {"absolute": ["depths"], "relative": ["relations"], "both": list(spec)}[self.kind]
        return {name: keras.KerasTensor(spec[name], dtype="int32") for name in wanted}

    def get_config(self):
        return {**super().get_config(), "kind": self.kind}


def token_depths(words, heads):
    """The depth of each token's word, int32 `[B, S]`: 1 for the root, 0 for what is in no tree."""
    depths = tf.pad(word_depths(heads), [[0, 0], [1, 0]])
    return tf.gather(depths, _known(words, heads), batch_dims=1)


def token_distances(words, heads):
    """The distance of each two tokens' words, int32 `[B, S, S]`; see `word_distances`."""
    outside = [[0, 0], [1, 0], [1, 0]]
    distances = tf.pad(word_distances(heads), outside, constant_values=UNRELATED)
    words = _known(words, heads)
    of_queries = tf.gather(distances, words, batch_dims=1)  # [B, S, W + 1]
    return tf.gather(of_queries, words, axis=2, batch_dims=1)


def word_depths(heads):
    """The depth of each word, int32 `[B, W]`, as `DependencyTree.depths` has it.

    A word from which the way up leads to no root (its head is not in the sentence, or it runs in a
    circle) is in no tree, and has depth 0.
    """
    steps = tf.pad(tf.ones(tf.shape(heads), tf.int32), [[0, 0], [1, 0]])
    steps, top = _climb(heads, steps, tf.add)
    return tf.where(top == 0, steps, 0)[:, 1:]


def word_distances(heads):
    """The distance of each two words, int32 `[B, W, W]`: from a query, its row, to a key.

    The steps between them along the tree are the paper's, as in `DependencyTree.distances`. Here
    they count below 0 where the key stands before the query in the sentence, so that a word can
    tell those that depend on it on its left from those on its right. `UNRELATED`, of which neither
    the paper nor the tree knows, is the distance to a word that is in no tree.
    """
    size = tf.shape(heads)[1]
    # Which words stand above each, itself included; 0, above the roots, is no word.
    itself = tf.linalg.diag(tf.pad(tf.ones([size], tf.bool), [[1, 0]]))
    above, top = _climb(heads, tf.repeat(itself[None], tf.shape(heads)[0], axis=0), tf.logical_or)
    above = tf.cast(above[:, 1:, 1:], tf.float32)  # [B, W, W]
    shared = tf.cast(tf.matmul(above, above, transpose_b=True), tf.int32)
    depths = tf.cast(tf.reduce_sum(above, axis=2), tf.int32)
    steps = depths[:, :, None] + depths[:, None] - 2 * shared
    order = tf.sign(tf.range(size)[None] - tf.range(size)[:, None])
    is_in_tree = top[:, 1:] == 0
    return tf.where(is_in_tree[:, :, None] & is_in_tree[:, None], steps * order, UNRELATED)


def _climb(heads, gathered, join):
    """Goes up from each word to the top, gathering what lies on the way, in log2(W) rounds.

    Args:
        heads: int32 `[B, W]`.
        gathered: `[B, W + 1, …]`, what there is at the place above the roots and at each word.
        join: of what was gathered in two parts of a way, one above the other.

    Returns:
        what was gathered on the way from each; and where it leads, `[B, W + 1]`: 0 for the top.
    """
    heads = tf.cast(heads, tf.int32)
    size = tf.shape(heads)[1]
    # A head that cannot be is replaced by the word itself, which leads nowhere.
    is_head = (heads >= 0) & (heads <= size)
    up = tf.pad(tf.where(is_head, heads, tf.range(1, size + 1)), [[0, 0], [1, 0]])

    def double(reach, up, gathered):
        further = join(gathered, tf.gather(gathered, up, batch_dims=1))
        return 2 * reach, tf.gather(up, up, batch_dims=1), further

    def is_short(reach, up, gathered):
        return reach < size

    _, up, gathered = tf.while_loop(is_short, double, (1, up, gathered))
    return gathered, up


def _known(words, heads):
    """The numbers of words that have a head; 0 in place of others."""
    words = tf.cast(words, tf.int32)
    is_known = (words > 0) & (words <= tf.shape(heads)[1])
    return tf.where(is_known, words, 0)
