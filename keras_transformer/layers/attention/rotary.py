"""Rotary attention: positions rotate queries and keys."""

import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_even,
    require_known_dim,
    require_positive,
    require_positive_integer,
)
from keras_transformer._utils.errors import ArgumentError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import (
    AttentionInputs,
    Integer,
    register_mechanism,
    relative_positions,
)
from keras_transformer.layers.positions.position_encoding import position_angles

#: The keys of `RotaryAttention.scaling` by its kind.
SCALING_KEYS: dict[str, tuple[str, ...]] = {
    "linear": ("kind", "factor"),
    "llama3": (
        "kind",
        "factor",
        "low_frequency_factor",
        "high_frequency_factor",
        "original_max_length",
    ),
}


@register_mechanism("rotary")
@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryAttention(ScaledDotProductAttention):
    """Scaled dot-product attention with rotary position embedding (RoPE).

    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.
    Dimension i is paired with i + D/2, not with its neighbor as in the paper: the result is the
    same up to the order of the projections' columns, and no strided copies are needed. `call` takes
    queries and keys from `add_positions`, which rotates them by their positions.

    Args:
        max_wavelength: Float. Base of the wavelengths, also called theta. Default 10,000, as in the
            paper.
        rotary_dim: Integer. Number of dimensions of a head that are rotated, the first ones. The
            others do not depend on positions. Default None: all.
        interleaved: Boolean. Whether neighbors are paired, as in the paper. Default False.
        scaling: Dictionary. How the angles are changed for texts longer than those of training:
            `{"kind": "linear", "factor": 4}` divides positions by the factor (Chen et al. 2023,
            "Extending Context Window of Large Language Models via Positional Interpolation");
            `{"kind": "llama3", "factor": 8, "low_frequency_factor": 1, "high_frequency_factor": 4,
            "original_max_length": 8192}` divides them for wavelengths that are long compared with
            the original maximum length (Llama team 2024, "The Llama 3 Herd of Models"). Default
            None: not changed.
        window: Integer. Number of positions that a query sees on each side. Scores outside are
            computed and hidden; `LocalAttention` does not compute them, and has no rotation.
            Default None: all positions.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, 10, 16))
    >>> rotary = RotaryAttention()
    >>> query, key = rotary.add_positions(states, states, offset=0)
    >>> keras.Model(states, rotary(query, key, states)).output_shape
    (None, 4, 10, 16)
    """

    supports_cross = False
    encodes_positions = True

    def __init__(
        self,
        max_wavelength: float = 10_000,
        rotary_dim: int | None = None,
        interleaved: bool = False,
        scaling: Mapping[str, Any] | None = None,
        window: int | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.max_wavelength: float = require_positive("max_wavelength", max_wavelength)
        self.rotary_dim: int | None = None
        if rotary_dim is not None:
            self.rotary_dim = require_positive_integer("rotary_dim", rotary_dim)
            require_even("rotary_dim", self.rotary_dim)
        self.interleaved: bool = require_boolean("interleaved", interleaved)
        self.scaling: dict[str, Any] | None = None if scaling is None else _checked(scaling)
        self.window: int | None = None
        if window is not None:
            self.window = require_positive_integer("window", window)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        key_dim = require_known_dim("query", query_shape)
        require_even("key_dim", key_dim)
        if self.rotary_dim is not None and self.rotary_dim > key_dim:
            raise ArgumentError("rotary_dim", f"at most key_dim={key_dim}", self.rotary_dim)
        super().build(query_shape, key_shape, value_shape)

    def add_positions(
        self, query: tf.Tensor, key: tf.Tensor, offset: Integer
    ) -> tuple[tf.Tensor, tf.Tensor]:
        size = self.rotary_dim or query.shape[-1]  # R
        positions = offset + ops.arange(ops.shape(query)[2], dtype="int32")
        angles = position_angles(positions, size, self.max_wavelength)  # [T, R/2]
        if self.scaling is not None:
            angles *= frequency_factors(self.scaling, size, self.max_wavelength)
        sine, cosine = (ops.cast(f(angles), query.dtype) for f in (ops.sin, ops.cos))

        def rotate(x: tf.Tensor) -> tf.Tensor:  # [B, H, T, D]
            if self.interleaved:
                first, second = x[..., :size:2], x[..., 1:size:2]
            else:
                first, second = x[..., : size // 2], x[..., size // 2 : size]  # [B, H, T, R/2]
            rotated = [first * cosine - second * sine, second * cosine + first * sine]
            if self.interleaved:
                pairs = ops.stack(rotated, axis=-1)  # [B, H, T, R/2, 2]
                rotated = [ops.reshape(pairs, (*ops.shape(pairs)[:-2], size))]
            if size < x.shape[-1]:
                rotated.append(x[..., size:])
            return ops.concatenate(rotated, axis=-1)

        return rotate(query), rotate(key)

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor]:
        if self.window is None:
            return super().compute_context(inputs)
        distance = ops.abs(relative_positions(inputs.query, inputs.key, inputs.query_offset))
        mask = (distance <= self.window)[tf.newaxis, tf.newaxis]  # [1, 1, T, S]
        if inputs.attention_mask is not None:
            mask = ops.logical_and(mask, inputs.attention_mask)
        return super().compute_context(inputs._replace(attention_mask=mask))


def frequency_factors(scaling: Mapping[str, Any], size: int, max_wavelength: float) -> np.ndarray:
    """Returns what the angles of each pair of dimensions are multiplied by, float64 `[R/2]`.

    Args:
        scaling: The argument of `RotaryAttention`.
        size: R, number of rotated dimensions.
        max_wavelength: Base of the wavelengths.
    """
    factor = scaling["factor"]
    if scaling["kind"] == "linear":
        return np.full(size // 2, 1 / factor)
    wavelengths = 2 * math.pi * max_wavelength ** (np.arange(0, size, 2) / size)
    low, high = scaling["low_frequency_factor"], scaling["high_frequency_factor"]
    periods = scaling["original_max_length"] / wavelengths  # in a text of the original length
    # 0 up to `low` periods, which are stretched by the factor; 1 from `high`, which are kept.
    kept = np.clip((periods - low) / (high - low), 0, 1)
    return (1 - kept) / factor + kept


def _checked(scaling: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a scaling after checking its keys and values."""
    if not isinstance(scaling, Mapping):
        raise ArgumentError("scaling", "a dictionary with `kind` and `factor`", scaling)
    scaling = dict(scaling)
    kind = require_choice("scaling.kind", scaling.get("kind"), SCALING_KEYS)
    if set(scaling) != set(SCALING_KEYS[kind]):
        expected = f"the keys {', '.join(SCALING_KEYS[kind])}"
        raise ArgumentError("scaling", f"a dictionary with {expected}", scaling)
    for name in SCALING_KEYS[kind][1:]:
        require_positive(f"scaling.{name}", scaling[name])
    if kind == "llama3" and scaling["low_frequency_factor"] >= scaling["high_frequency_factor"]:
        expected = f"above low_frequency_factor={scaling['low_frequency_factor']}"
        value = scaling["high_frequency_factor"]
        raise ArgumentError("scaling.high_frequency_factor", expected, value)
    return scaling
