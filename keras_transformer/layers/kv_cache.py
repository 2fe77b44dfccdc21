"""Key/value caches for decoding token by token.

They are named tuples of tensors, which `tf.nest`, `tf.while_loop` and SavedModels flatten.
"""

from typing import Any, NamedTuple, Self

import tensorflow as tf
from keras import ops
from tensorflow.python.ops import control_flow_util


class KVCache:
    """Base of the caches of self-attention: keys, values and mask of the tokens so far.

    The length of a cache is the index of the next entry. It differs from the position of the next
    token in its text if the cache does not hold every earlier token.
    """

    __slots__ = ()
    key: tf.Tensor  # [B, K, L, D]
    value: tf.Tensor  # [B, K, L, D]
    mask: tf.Tensor  # boolean [B, L], False for padding and for entries that are not written yet

    @property
    def length(self) -> tf.Tensor:
        """Returns the number of entries that have been written, an int32 scalar."""
        raise NotImplementedError

    def append(self, key: tf.Tensor, value: tf.Tensor, mask: tf.Tensor | None = None) -> Self:
        """Returns the cache with T more entries: `[B, K, T, D]`, and a mask `[B, T]`."""
        raise NotImplementedError

    def require_space(self, count: int | tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
        """Returns `tensor`, which a step appends next, after checking that `count` entries fit."""
        return tensor

    def reorder(self, indices: tf.Tensor) -> Self:
        """Returns the cache of the rows `indices` `[R]`, as a beam search chooses them."""
        return tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, indices) if tensor.shape.rank else tensor, self
        )


class CrossAttentionCache(NamedTuple):
    """Projected keys and values of another sequence, computed once for all steps."""

    key: tf.Tensor  # [B, K, S, D]
    value: tf.Tensor  # [B, K, S, D]
    mask: tf.Tensor  # boolean [B, S], False for padding


class _FixedFields(NamedTuple):
    key: tf.Tensor
    value: tf.Tensor
    mask: tf.Tensor
    next_index: tf.Tensor


class FixedKVCache(_FixedFields, KVCache):
    """A cache with space for a fixed number of entries L; shapes do not change, as XLA requires.

    The fields are those of `KVCache`, and `next_index`, the index of the next entry, int32.

    >>> cache = FixedKVCache.empty(2, num_heads=4, max_length=5, key_dim=8)
    >>> cache = cache.append(tf.ones([2, 4, 1, 8]), tf.ones([2, 4, 1, 8]))
    >>> cache.key.shape, int(cache.length)
    (TensorShape([2, 4, 5, 8]), 1)
    """

    __slots__ = ()

    @classmethod
    def empty(
        cls,
        batch_size: int | tf.Tensor,
        num_heads: int,
        max_length: int | tf.Tensor,
        key_dim: int,
        value_dim: int | None = None,
        dtype: str = "float32",
    ) -> Self:
        """Returns a cache without entries.

        Args:
            batch_size: Integer or scalar tensor. B.
            num_heads: Integer. K, heads of keys and values.
            max_length: Integer or scalar tensor. L, space for so many entries.
            key_dim: Integer. D, size of a key.
            value_dim: Integer. Size of a value. Defaults to `key_dim`.
            dtype: Type of keys and values. Defaults to "float32".
        """
        return cls(
            tf.zeros([batch_size, num_heads, max_length, key_dim], dtype),
            tf.zeros([batch_size, num_heads, max_length, value_dim or key_dim], dtype),
            tf.zeros([batch_size, max_length], tf.bool),
            tf.constant(0, tf.int32),
        )

    @property
    def length(self) -> tf.Tensor:
        return self.next_index

    def append(self, key: tf.Tensor, value: tf.Tensor, mask: tf.Tensor | None = None) -> Self:
        batch_size, _, count, _ = shape_of(key)
        new_mask: Any = tf.fill([batch_size, count], True) if mask is None else mask
        slots = self.next_index + tf.range(count)  # [T]
        return type(self)(
            _write_heads(self.key, key, slots),
            _write_heads(self.value, value, slots),
            _write(self.mask, new_mask, slots),
            self.next_index + count,
        )

    def require_space(self, count: int | tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
        """Returns `tensor` after checking that `count` more entries fit.

        An unknown length is checked when the graph runs. XLA has no run-time errors: there the
        caller must keep the length within bounds.
        """
        end, max_length = self.next_index + count, self.key.shape[2]
        message = (
            f"The cache has space for max_length={max_length} tokens, and this step exceeds it. "
            "Ask initial_state for a larger max_length."
        )
        known_end = tf.get_static_value(end)
        if max_length is None or known_end is None:
            # Before anything is written: the write itself would fail with another message.
            fits = tf.debugging.assert_less_equal(end, tf.shape(self.key)[2], message)
            with tf.control_dependencies([fits]):
                return tf.identity(tensor)
        if known_end > max_length:
            raise ValueError(message)
        return tensor


class _GrowingFields(NamedTuple):
    key: tf.Tensor
    value: tf.Tensor
    mask: tf.Tensor


class GrowingKVCache(_GrowingFields, KVCache):
    """A cache that grows by concatenation: a step reads and copies only the entries so far.

    Shapes change from step to step, which XLA does not allow; use `FixedKVCache` there.

    >>> cache = GrowingKVCache.empty(2, num_heads=4, key_dim=8)
    >>> cache = cache.append(tf.ones([2, 4, 1, 8]), tf.ones([2, 4, 1, 8]))
    >>> cache.key.shape, int(cache.length)
    (TensorShape([2, 4, 1, 8]), 1)
    """

    __slots__ = ()

    @classmethod
    def empty(
        cls,
        batch_size: int | tf.Tensor,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dtype: str = "float32",
    ) -> Self:
        """Returns a cache without entries; see `FixedKVCache.empty` for the arguments.

        In a graph its batch size and length are unknown, so that a loop may change them.
        """

        def empty(shape: list[Any], dtype: str) -> tf.Tensor:
            known = [None, *shape[1:2], None, *shape[3:]] if len(shape) == 4 else [None, None]
            return tf.compat.v1.placeholder_with_default(tf.zeros(shape, dtype), known)

        return cls(
            empty([batch_size, num_heads, 0, key_dim], dtype),
            empty([batch_size, num_heads, 0, value_dim or key_dim], dtype),
            empty([batch_size, 0], "bool"),
        )

    @property
    def length(self) -> tf.Tensor:
        return tf.unstack(tf.shape(self.mask))[1]

    def append(self, key: tf.Tensor, value: tf.Tensor, mask: tf.Tensor | None = None) -> Self:
        if mask is None:
            batch_size, _, count, _ = tf.unstack(tf.shape(key))
            mask = tf.fill([batch_size, count], True)
        return type(self)(
            tf.concat([self.key, key], axis=2),
            tf.concat([self.value, value], axis=2),
            tf.concat([self.mask, mask], axis=1),
        )


def _write_heads(cached: tf.Tensor, new: tf.Tensor, slots: tf.Tensor) -> tf.Tensor:
    """Returns `cached` `[B, K, L, D]` with `new` `[B, K, T, D]` at the entries `slots` `[T]`."""
    _, _, count, size = shape_of(new)
    flat_cached = tf.reshape(cached, [-1, tf.shape(cached)[2], size])  # [B·K, L, D]
    flat_new = tf.reshape(new, [-1, count, size])  # [B·K, T, D]
    return tf.reshape(_write(flat_cached, flat_new, slots), tf.shape(cached))


def _write(cached: tf.Tensor, new: tf.Tensor, slots: tf.Tensor) -> tf.Tensor:
    """Returns `cached` `[R, L, …]` with `new` `[R, T, …]` at `slots` `[T]`; in place under XLA."""
    rows = tf.meshgrid(tf.range(shape_of(new)[0]), slots, indexing="ij")
    return tf.tensor_scatter_nd_update(cached, tf.stack(rows, axis=-1), new)


def shape_of(tensor: Any) -> tuple[Any, ...]:
    """Returns the shape of a tensor: integers where it is known, else scalar tensors."""
    shape: Any = ops.shape(tensor)
    return tuple(shape)


def is_compiled_by_xla() -> bool:
    """Returns whether this code is traced for a `tf.function(jit_compile=True)`, at any depth."""
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
