"""Exact attention that never holds all scores at once."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.checks import require_positive_integer
from keras_transformer.layers.attention.chunks import Chunks
from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.attention.meeting_chunks import MeetingChunks
from keras_transformer.layers.attention.online_softmax import attend_in_chunks
from keras_transformer.layers.attention.scaled_dot_product import ScaledDotProduct


@register_mechanism("chunked")
@keras.saving.register_keras_serializable(package="keras_transformer")
class Chunked(ScaledDotProduct):
    """What `ScaledDotProduct` gives, in memory that grows with T + S, not with T·S.

    Queries and keys are cut into chunks, and two chunks at a time meet. The softmax is kept up to
    date as more keys come (Milakov and Gimelshein 2018, "Online normalizer calculation for
    softmax"); for the gradient the scores are computed anew (Rabe and Staats 2021, "Self-attention
    Does Not Need O(n²) Memory"; Dao et al. 2022, "FlashAttention"). In causal use, chunks that lie
    in the future are left out.

    Values and gradients are those of full attention whatever the size of the chunks. Only the
    weights, if they are asked for, are T·S numbers, and a mask is as large as it is given.

    Args:
        chunk: queries, and keys, in a chunk at most. Smaller ones take less memory and more time.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = Chunked(chunk=256)(states, states, states, use_causal_mask=True)
    >>> keras.Model(states, context).output_shape
    (None, 4, None, 16)
    """

    def __init__(self, chunk=512, **kwargs):
        super().__init__(**kwargs)
        self.chunk = require_positive_integer("chunk", chunk)

    def call(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_weights=False,
        training=None,
    ):
        seed = None
        if training and self.dropout:
            # The seeds are int64, for GPUs; XLA wants int32.
            state = self.dropout_layer.seed_generator.next()
            seed = tf.cast(tf.math.floormod(state, tf.int32.max - 1), tf.int32)
        chunks = MeetingChunks(
            Chunks(ops.shape(query)[2], self.chunk),
            Chunks(ops.shape(key)[2], self.chunk),
            attention_mask,
            offset=query_offset,
            is_causal=use_causal_mask,
            rate=self.dropout,
            seed=seed,
        )
        context = attend_in_chunks(chunks, query * query.shape[-1] ** -0.5, key, value)
        if not return_weights:
            return context
        _, weights = super().call(
            query, key, value, attention_mask, query_offset, use_causal_mask, True, training=False
        )
        return context, weights

    def get_config(self):
        return {**super().get_config(), "chunk": self.chunk}
