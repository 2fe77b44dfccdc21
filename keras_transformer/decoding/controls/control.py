"""What the controls share."""

import tensorflow as tf


class Control:
    """Changes the log-probabilities by which a search chooses the next token.

    A control sees the tokens so far and nothing else of the search, so each works with every
    search. A new one is a new file with a frozen dataclass that answers `adjust`.
    """

    def adjust(self, scores, ids, length):
        """The scores `[R, V]` with the control's changes; -inf is never chosen.

        Runs in the graph, plain and under XLA.

        Args:
            scores: log-probabilities of the next token, as other controls have left them.
            ids: int32 `[R, T]`, the tokens so far, padded.
            length: a scalar tensor, how many they are.
        """
        raise NotImplementedError


def lower(scores, ids, values):
    """Scores `[R, V]`, of which those of tokens `ids` `[R, K]` are lowered to `values` `[R, K]`.

    A value above a token's score leaves it as it is; of several for one token the lowest counts.
    """
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(ids))
    return tf.tensor_scatter_nd_min(scores, tf.stack([rows, ids], axis=-1), values)
