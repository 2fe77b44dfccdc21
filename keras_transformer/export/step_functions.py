"""Encoder and decoder step of a model as graph functions of named tensors, without variables.

Runtimes without TensorFlow take them: weights become constants, and the state of the decoder, a
structure of tensors, becomes inputs and outputs with names.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.layers.attention import rotary
from keras_transformer.layers.kv_cache import GrowingKVCache
from keras_transformer.layers.positions import position_encoding

#: Entries of a state that no step changes.
_SHARED = ("memory", "source")


class StepFunctions:
    """The functions `encode` and `step` of a model, as concrete functions of named tensors.

    `encode` takes the source ids `[B, S]` and returns the part of the state that depends on the
    source; a language model has no such function. `step` takes the latest ids `[B]` and the state,
    and returns logits `[B, V]` and each changed entry of the state as "next_<name>".

    Args:
        model: a `Transformer`, a `LanguageModel` or another model with `initial_state` and `step`.
        capacity: number of tokens that fixed caches have space for. Default None: caches grow, and
            begin with no entries.

    Attributes:
        specs: `tf.TensorSpec` of each entry of the state, by name.
        empty: names of the entries that begin with zeros and, where they grow, with no entries.
    """

    def __init__(self, model: Any, capacity: int | None = None) -> None:
        self.model = model
        self.capacity = capacity
        self.has_source: bool = hasattr(model, "encode")
        self.encode: Any = None
        self._structure: Any = None
        ids = tf.TensorSpec([None, None], tf.int32, name="source")
        encode = constant_function(model, self._encode, [ids])
        self.specs: dict[str, tf.TensorSpec] = {
            name: tf.TensorSpec(leaf.shape, leaf.dtype, name=name)
            for name, leaf, _ in _leaves(self._structure)
        }
        self.empty: list[str] = [name for name, _, is_empty in _leaves(self._structure) if is_empty]
        if self.has_source:
            self.encode = encode

    def step(self) -> Any:
        """Returns the concrete function of a step."""
        latest = tf.TensorSpec([None], tf.int32, name="ids")
        return constant_function(self.model, self._step, [latest, *self.specs.values()])

    def _encode(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        read = self.model.encode(ids) if self.has_source else tf.shape(ids)[0]
        room: Any = self.capacity or tf.constant(1)
        state = self.model.initial_state(read, room)
        state.pop("kernels", None)  # a copy of a weight
        self._structure = state
        found = {name: leaf for name, leaf, is_empty in _leaves(state) if not is_empty}
        return found or {"ids": ids}

    def _step(self, ids: tf.Tensor, *leaves: tf.Tensor) -> dict[str, tf.Tensor]:
        names = [name for name, _, _ in _leaves(self._structure)]
        state = _replaced(self._structure, dict(zip(names, leaves, strict=True)))
        logits, new = self.model.step(ids, state)
        changed = {name: leaf for name, leaf, _ in _leaves(new) if not name.startswith(_SHARED)}
        return {"logits": logits} | {f"next_{name}": leaf for name, leaf in changed.items()}


def constant_function(
    model: keras.Model, function: Callable[..., Any], specs: list[tf.TensorSpec]
) -> Any:
    """Returns a concrete function of tensors in which the weights of a model are constants.

    It has no operation in float64 and none that only checks shapes, which other runtimes lack.

    Args:
        model: the model whose layers the function calls.
        function: Python function of tensors.
        specs: `tf.TensorSpec`s of its arguments.
    """
    values = [(weight, weight.numpy()) for weight in model.weights]

    def call(*tensors: tf.Tensor) -> Any:
        constants = [(weight, tf.constant(value)) for weight, value in values]
        with keras.StatelessScope(state_mapping=constants), _plain_operations(model):
            return function(*tensors)

    return tf.function(call, input_signature=specs, autograph=False).get_concrete_function()


@contextlib.contextmanager
def _plain_operations(model: keras.Model) -> Iterator[None]:
    """Replaces operations that LiteRT does not have while a function is traced."""
    longest = model.config.max_length + 1024

    def angles(positions: tf.Tensor, hidden_dim: int, max_wavelength: float) -> tf.Tensor:
        exponents = np.arange(0, hidden_dim, 2) / hidden_dim
        table = np.arange(longest)[:, None] / np.power(float(max_wavelength), exponents)
        # Angles within one turn: a float32 holds them exactly enough.
        return tf.gather(tf.constant(np.mod(table, 2 * math.pi), tf.float32), positions)

    def refuse(*_: Any) -> Any:
        raise UserError(
            "Exports for LiteRT and ONNX cannot express rotary attention with `scaling`.",
            fix="Export as a SavedModel.",
        )

    def set_shape(tensor: tf.Tensor, shape: Any, name: str | None = None) -> tf.Tensor:
        tensor.set_shape(shape)
        return tensor

    with contextlib.ExitStack() as replaced:
        for module in (position_encoding, rotary):
            replaced.enter_context(mock.patch.object(module, "position_angles", angles))
        replaced.enter_context(mock.patch.object(rotary, "frequency_factors", refuse))
        replaced.enter_context(mock.patch.object(tf, "ensure_shape", set_shape))
        yield


def _leaves(
    state: Any, name: str = "", is_empty: bool = False
) -> Iterator[tuple[str, tf.Tensor, bool]]:
    """Yields name and tensor of each leaf of a state, and whether it begins empty."""
    for key, value in _items(state):
        path = f"{name}_{key}".lstrip("_")
        begins_empty = is_empty or isinstance(value, GrowingKVCache) or path == "position"
        if tf.is_tensor(value):
            yield path, value, begins_empty
        else:
            yield from _leaves(value, path, begins_empty)


def _items(state: Any) -> list[tuple[str, Any]]:
    if isinstance(state, dict):
        return sorted(state.items())
    if hasattr(state, "_fields"):
        return list(zip(state._fields, state, strict=True))
    return [(str(number), value) for number, value in enumerate(state)]


def _replaced(state: Any, leaves: dict[str, tf.Tensor], name: str = "") -> Any:
    """Returns a state of the same structure with other leaves, by name."""
    values = []
    for key, value in _items(state):
        path = f"{name}_{key}".lstrip("_")
        values.append(leaves[path] if tf.is_tensor(value) else _replaced(value, leaves, path))
    if isinstance(state, dict):
        return dict(zip(sorted(state), values, strict=True))
    return type(state)(*values) if hasattr(state, "_fields") else type(state)(values)
