"""Attention that scores every query against every key and mixes the values by softmax."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_choice, require_rate
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.registry import register

MECHANISMS = {}


def register_mechanism(name):
    """Decorator: makes an `AttentionMechanism` known by `name` to layers, recipes and tests."""
    return register(MECHANISMS, name)


def make_mechanism(mechanism, dropout=0.0, **kwargs):
    """Returns a new mechanism: of the registered name, or like the instance given.

    Args:
        mechanism: a registered name, or an `AttentionMechanism` (or its serialized form) whose
            settings, never its weights, are taken over, so that one instance can describe every
            block of a model.
        dropout: rate on the attention weights; 0 leaves an instance's own.
        **kwargs: for the new layer, such as `name` and `dtype`.
    """
    if isinstance(mechanism, dict):
        mechanism = keras.saving.deserialize_keras_object(mechanism)
    if isinstance(mechanism, AttentionMechanism):
        config = mechanism.get_config()
        config["dropout"] = dropout or config["dropout"]
        return type(mechanism).from_config({**config, **kwargs})
    kind = MECHANISMS[require_choice("mechanism", mechanism, MECHANISMS)]
    return kind(dropout=dropout, **kwargs)


def serialize_mechanism(mechanism):
    """A mechanism's settings as `make_mechanism` takes them, without what building it added."""
    config = keras.saving.serialize_keras_object(mechanism)
    config.pop("build_config", None)
    return config


def is_query_mask(attention_mask):
    """Whether a mask of rank 3 or 4 differs from query to query.

    It does if it is not known to have one row for all of them.
    """
    return attention_mask is not None and attention_mask.shape[-2] != 1


class AttentionMechanism(keras.layers.Layer):
    """Base of everything that lets queries look at keys and gather values.

    A mechanism is one file in this folder. It registers a name, says what it can do in the class
    attributes below, owns any weights of its own, and implements `call`. Mechanisms that score
    every query against every key derive from `SoftmaxAttention` and implement `score` alone.

    Args:
        dropout: rate at which attention weights are dropped in training.

    Call arguments:
        query: `[B, H, T, D]`, projected.
        key, value: `[B, H, S, D]`, projected; keys may have gone through `prepare`.
        attention_mask: boolean, True = attend, of rank 4 and broadcastable to `[B, H, T, S]`. A
            mask of padding is `[B, 1, 1, S]`, so that no mechanism need hold T·S of anything.
        query_offset: position of the first query among the keys: 0, or the steps already decoded.
        use_causal_mask: whether a query sees only keys up to its own position.
        return_attention_scores: whether to return the weights as well.
        relations: only of mechanisms that read them: int32 `[B, T, S]`, how query and key are
            related, such as their distance in a tree.

    Returns:
        context `[B, H, T, D]`; with `return_attention_scores`, also weights `[B, H, T, S]`. A query that may
        attend to nothing gets a context and weights of zero.
    """

    #: The name it is registered by.
    registered_name = None
    #: May it be told to hide the future? Needed for decoders.
    supports_causal = True
    #: May keys and values come step by step from a cache? Needed for decoding.
    supports_cache = True
    #: May queries and keys belong to two different sequences?
    supports_cross = True
    #: May a row hold several documents, each with positions from 0 on?
    supports_packing = True
    #: May the mask differ from query to query? If not, it hides keys from all: `[B, 1, 1, S]`.
    supports_query_masks = True
    #: Does it tell positions apart by itself, so that embeddings need none?
    encodes_positions = False
    #: Does it have an end, given as `max_length`?
    is_bounded = False
    #: Does it look at keys? If not, there is no need to project any: it gets the values as keys.
    reads_keys = True
    #: May it be told how queries and keys are related, as `relations`?
    reads_relations = False
    #: Is there nothing to hide from the latest of all positions? If so, a step of one query from a
    #: cache is not told to hide the future.
    latest_sees_all = True

    def __init__(self, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.dropout = require_rate("dropout", dropout)
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)

    def build(self, query_shape, key_shape, value_shape):
        self.built = True

    def place(self, query, key, offset):
        """Marks fresh queries and keys `[B, H, T, D]` with their positions, from `offset` on.

        Called before keys enter a cache, so that what is done here is done once for each key.
        """
        return query, key

    def prepare(self, key):
        """What scores need of keys `[B, H, S, D]` alone, so that it is done once for many queries.

        A recurrent decoder's queries come one after the other, each made from what the one before
        it found. What is prepared is taken by `call` in place of keys. It is linear in them: what
        is added to a key may as well be prepared, and be added then.

        Returns:
            a nest of tensors `[B, H, S, …]`.
        """
        return key

    def call(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
    ):
        raise NotImplementedError(f"{type(self).__name__} must implement `call`.")

    def check_use(
        self,
        is_causal=False,
        is_cached=False,
        is_cross=False,
        is_packed=False,
        has_query_mask=False,
        has_marked_keys=False,
        has_relations=False,
    ):
        """Raises `ValueError` when asked for what this mechanism cannot do."""
        wanted = {
            "supports_causal": (is_causal, "hide the future from a query (causal use)"),
            "supports_cache": (is_cached, "decode step by step from a cache"),
            "supports_cross": (is_cross, "attend from one sequence to another (cross attention)"),
            "supports_packing": (is_packed, "attend within documents packed into one row"),
            "supports_query_masks": (
                has_query_mask,
                "take a mask that differs from query to query, only one of keys, [B, 1, 1, S]",
            ),
            "reads_keys": (has_marked_keys, "see what marks a key (coverage): it looks at none"),
            "reads_relations": (
                has_relations,
                "read relations between tokens, such as distances in a tree",
            ),
        }
        needed = [attribute for attribute, (is_wanted, _) in wanted.items() if is_wanted]
        for attribute, (is_wanted, what) in wanted.items():
            if is_wanted and not getattr(self, attribute):
                able = ", ".join(
                    repr(name)
                    for name, kind in sorted(MECHANISMS.items())
                    if all(getattr(kind, other) for other in needed)
                )
                raise ValueError(
                    f"The attention mechanism {self.registered_name or type(self).__name__!r} "
                    f"cannot {what}. "
                    f"Use one of {able}."
                )

    def compute_output_spec(self, query, key, value, return_attention_scores=False, **kwargs):
        context = keras.KerasTensor(
            self.compute_output_shape(query.shape, key.shape, value.shape), dtype=self.compute_dtype
        )
        if not return_attention_scores:
            return context
        weights_shape = (*query.shape[:3], key.shape[2])
        return context, keras.KerasTensor(weights_shape, dtype=self.compute_dtype)

    def compute_output_shape(self, query_shape, key_shape, value_shape):
        return (*query_shape[:3], value_shape[-1])

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout}


# Added to the score of a hidden key. Finite, so that a row with nothing to see gives no NaN; large
# enough that exp() of it is exactly 0 beside any visible score.
HIDDEN = -1e9


def distances(query, key, query_offset):
    """Position of each key less that of each query, int32 `[T, S]`; above 0 lies the future.

    Args:
        query: any tensor `[B, H, T, …]`.
        key: any tensor `[B, H, S, …]`.
        query_offset: position of the first query.
    """
    queries = query_offset + ops.arange(ops.shape(query)[2], dtype="int32")
    keys = ops.arange(ops.shape(key)[2], dtype="int32")
    return ops.expand_dims(keys, 0) - ops.expand_dims(queries, 1)


def full_precision(scores):
    """Scores in float32 at least: a softmax over many of them is not for half precision."""
    return ops.cast(scores, keras.backend.result_type(scores.dtype, "float32"))


def softmax_of_visible(scores, visible):
    """Softmax of scores `[…, S]` over what is visible, in full precision; zeros where nothing is.

    Args:
        scores: of any floating-point type.
        visible: boolean, broadcastable to the scores.
    """
    scores = full_precision(scores)
    scores = scores + ops.where(visible, ops.cast(0, scores.dtype), HIDDEN)
    sees_any = ops.any(visible, axis=-1, keepdims=True)
    return tf.nn.softmax(scores) * ops.cast(sees_any, scores.dtype)


class SoftmaxAttention(AttentionMechanism):
    """Base of the dense mechanisms: scores, softmax over what may be seen, weighted sum of values.

    A subclass implements `score`; one whose positions also mark the values overrides `mix`. What
    else it takes in its `call` it hands to `attend`, and gets it in both.
    """

    def score(self, query, key, query_offset):
        """Scores `[B, H, T, S]` of queries `[B, H, T, D]` against keys `[B, H, S, D]`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `score`.")

    def mix(self, weights, value, query_offset):
        """Context `[B, H, T, D]` from weights `[B, H, T, S]` and values `[B, H, S, D]`."""
        return tf.matmul(weights, value)

    def call(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
    ):
        return self.attend(
            query,
            key,
            value,
            attention_mask,
            query_offset,
            use_causal_mask,
            return_attention_scores,
            training,
        )

    def weigh(self, scores):
        """The weights `[B, H, T, S]` of scores in which what is hidden has next to nothing."""
        return ops.cast(tf.nn.softmax(scores), self.compute_dtype)

    def attend(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
        **marks,
    ):
        """What `call` returns; `marks` go to `score` and `mix`."""
        scores = full_precision(self.score(query, key, query_offset, **marks))
        mask = attention_mask
        if use_causal_mask:
            is_past = distances(query, key, query_offset) <= 0
            mask = is_past if mask is None else ops.logical_and(mask, is_past)
        if mask is not None:
            scores = scores + ops.where(mask, ops.cast(0, scores.dtype), HIDDEN)
        weights = self.weigh(scores)
        dropped = self.dropout_layer(weights, training=training)
        context = self.mix(dropped, value, query_offset, **marks)  # [B, H, T, D]
        if attention_mask is not None:  # a causal mask alone leaves every query something to see
            sees_any = ops.cast(ops.any(mask, axis=-1, keepdims=True), self.compute_dtype)
            context, weights = context * sees_any, weights * sees_any
        return (context, weights) if return_attention_scores else context
