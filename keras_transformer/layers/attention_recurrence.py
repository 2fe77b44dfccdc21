"""Recurrent decoder layers that attend to a source at each step."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_boolean, require_positive_integer, require_rate
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    make_mechanism,
    serialize_settings,
)
from keras_transformer.layers.multi_head_attention import with_extras
from keras_transformer.layers.recurrence import RecurrentCell, make_cell, scan
from keras_transformer.layers.residual import Dropout
from keras_transformer.layers.source_attention import (
    PrecomputedSource,
    attend_to_source,
    decoder_output_spec,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class AttentionRNN(ConfiguredLayer):
    """Stacked recurrent cells with attention to a source and input feeding.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
    sections 3 and 3.3: the state of the last cell is the query; the context and the state give the
    attentional vector `tanh(W [context; state])`, which is the output. It is also concatenated with
    the next input ("input feeding").

    With `coverage_attention` the sum c of the previous attention weights is added to the keys, as
    `k_i + c_i u` with a learned vector u, before they are scored (See et al. 2017, "Get To The
    Point: Summarization with Pointer-Generator Networks", equation 11; Tu et al. 2016, "Modeling
    Coverage for Neural Machine Translation", section 3). For additive attention this is the papers'
    term, because `U (k + c u)` is `U k + c (U u)`. The vector starts at 0, without effect.

    The initial states of the cells are computed from the mean of the source (Sennrich et al. 2017,
    "Nematus: a Toolkit for Neural Machine Translation", section 2).

    Masking: padding of the source is hidden by `encoder_outputs_mask` or the implicit mask of
    `encoder_outputs`. The outputs have the mask of `inputs`, whose padding must come last.

    Args:
        hidden_dim: Integer. Size M of the inputs, the source, the states and the outputs.
        num_layers: Integer. Number of cells. Default 1.
        cell: "lstm" or "gru". Default "lstm".
        attention: A name in `MECHANISMS` or an instance. Default "scaled_dot_product".
        dropout: Float. Dropout rate of the outputs of cells and of the attentional vector, with one
            mask for all steps (Gal & Ghahramani 2016, "A Theoretically Grounded Application of
            Dropout in Recurrent Neural Networks"). Default 0.
        coverage_attention: Boolean. Whether coverage is added to the keys. Default False.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, T, M]`.
        encoder_outputs: `[B, S, M]`.
        source: With a `state`, in place of `encoder_outputs` and its mask: the result of
            `precompute_source`. Default None.
        state: Result of `initial_state` or of the previous call; with it, `inputs` are the next
            steps, and there may be N consecutive rows for a row of the source. Default None.
        offset: Number of previous steps. Default 0.
        return_attention_scores: Boolean. Whether to return weights `[B, T, S]`. Default False.
        encoder_outputs_mask: Boolean `[B, S]`, False for padding. Default None.
        training: Boolean. Whether dropout is applied.

    Returns:
        `[B, T, M]`, or a tuple of it, the weights and the updated state, as far as requested.

    >>> x, source = keras.Input((None, 64)), keras.Input((None, 64))
    >>> AttentionRNN(64, cell="gru")(x, source).shape
    (None, None, 64)
    """

    def __init__(
        self,
        hidden_dim: int,
        num_layers: int = 1,
        cell: str = "lstm",
        attention: str | AttentionMechanism | dict[str, Any] = "scaled_dot_product",
        dropout: float = 0.0,
        coverage_attention: bool = False,
        **kwargs: Any,
    ) -> None:
        # No autocast: coverage is a sum, too imprecise in half precision.
        super().__init__(autocast=False, **kwargs)
        self.hidden_dim: int = require_positive_integer("hidden_dim", hidden_dim)
        self.num_layers: int = require_positive_integer("num_layers", num_layers)
        self.cell: str = cell
        self.dropout: float = require_rate("dropout", dropout)
        self.coverage_attention: bool = require_boolean("coverage_attention", coverage_attention)
        self.cells: list[RecurrentCell] = [
            make_cell(cell, self.hidden_dim, name=f"cell_{i}", dtype=self.dtype_policy)
            for i in range(self.num_layers)
        ]
        self.mechanism: AttentionMechanism = make_mechanism(
            attention, name="mechanism", dtype=self.dtype_policy
        )
        self.mechanism.require_support(cache=True, cross=True, coverage=self.coverage_attention)
        self.dropout_layer: Dropout = Dropout(self.dropout, dtype=self.dtype_policy)
        size = self.num_layers * self.cells[0].num_states * self.hidden_dim
        self.initial_projection: keras.layers.Dense = keras.layers.Dense(
            size, activation="tanh", name="initial_projection", dtype=self.dtype_policy
        )
        self.supports_masking = True

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Shape) -> None:
        for name, shape in (("inputs", inputs_shape), ("encoder_outputs", encoder_outputs_shape)):
            if shape[-1] != self.hidden_dim:
                expected = f"the hidden_dim {self.hidden_dim} of AttentionRNN '{self.name}'"
                raise UserError(f"`{name}` must have {expected}; got {tuple(shape)}.")
        for cell in self.cells:
            cell.build((None, self.hidden_dim))
        self.initial_projection.build((None, self.hidden_dim))
        one_head = (None, 1, None, self.hidden_dim)
        self.mechanism.build(one_head, one_head, one_head)
        new, size, gates = self.new_weight, self.hidden_dim, self.cells[0].num_gates
        self.feed_kernel: keras.Variable = new("feed_kernel", (size, gates * size))
        self.attentional_kernel: keras.Variable = new("attentional_kernel", (2 * size, size))
        if self.coverage_attention:
            self.coverage_vector: keras.Variable = new("coverage_vector", (size,), "zeros")

    def call(
        self,
        inputs: tf.Tensor,
        encoder_outputs: tf.Tensor | None = None,
        source: PrecomputedSource | None = None,
        state: dict[str, Any] | None = None,
        offset: int | tf.Tensor = 0,
        return_attention_scores: bool = False,
        encoder_outputs_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        is_stepping = state is not None
        if state is None:
            state = self.initial_state(encoder_outputs, encoder_outputs_mask)
        if source is None:
            source = self.precompute_source(encoder_outputs, encoder_outputs_mask)
        has_coverage, coverage_vector = self.coverage_attention, None
        if has_coverage:
            vector = tf.cast(self.coverage_vector, self.compute_dtype)
            coverage_vector = self.mechanism.precompute_keys(vector[None, None, None])
            if is_stepping:  # each hypothesis has attended to other positions
                source = source.repeated(tf.shape(inputs)[0])
        weights = [cell.read_weights() for cell in self.cells]
        feed_kernel = tf.cast(self.feed_kernel, self.compute_dtype)
        attentional_kernel = tf.cast(self.attentional_kernel, self.compute_dtype)
        drop = self._make_dropouts(tf.shape(inputs)[0], training)

        def step(
            time: Any, step_inputs: tuple[tf.Tensor, ...], state: dict[str, Any]
        ) -> tuple[tuple[tf.Tensor, ...], dict[str, Any]]:
            fed = step_inputs[0] + tf.matmul(state["attentional"], feed_kernel)  # [B, G·M]
            cells = [self.cells[0].step(fed, state["cells"][0], weights[0])]
            for i in range(1, self.num_layers):
                fed = self.cells[i].project_inputs(drop[i - 1](cells[-1][0]), weights[i])
                cells.append(self.cells[i].step(fed, state["cells"][i], weights[i]))
            query = cells[-1][0]  # [B, M]
            attended = source
            if has_coverage:
                attended = source.with_coverage(coverage_vector, state["coverage"])
            context, attention = attend_to_source(
                self.mechanism,
                query[:, None],
                attended,
                offset + time,
                return_attention_scores=return_attention_scores or has_coverage,
                training=training,
            )
            both = tf.concat([context[:, 0], query], axis=-1)  # [B, 2·M]
            attentional = drop[-1](tf.tanh(tf.matmul(both, attentional_kernel)))
            outputs = (attentional, *([attention[:, 0]] if return_attention_scores else []))
            new = {"cells": tuple(cells), "attentional": attentional}
            if has_coverage:
                coverage = state["coverage"] + tf.cast(attention[:, 0], tf.float32)  # [B, S]
                new["coverage"] = tf.ensure_shape(coverage, state["coverage"].shape)
            return outputs, new

        inputs = tf.transpose(tf.cast(inputs, self.compute_dtype), [1, 0, 2])  # [T, B, M]
        projected = self.cells[0].project_inputs(inputs, weights[0])  # [T, B, G·M]
        output_dtypes = [self.compute_dtype] * (2 if return_attention_scores else 1)
        outputs, state = scan(step, (projected,), state, output_dtypes)
        states, *scores = (tf.transpose(each, [1, 0, 2]) for each in outputs)
        return with_extras(states, *scores, state if is_stepping else None)

    def precompute_source(
        self, encoder_outputs: tf.Tensor, mask: tf.Tensor | None = None
    ) -> PrecomputedSource:
        """Returns keys, values and mask of a source `[B, S, M]`, computed once for all steps."""
        encoder_outputs = tf.cast(encoder_outputs, self.compute_dtype)
        return PrecomputedSource.of(self.mechanism, encoder_outputs, encoder_outputs, mask)

    def initial_state(
        self, encoder_outputs: tf.Tensor, mask: tf.Tensor | None = None
    ) -> dict[str, Any]:
        """Returns the state before the first step.

        It has "cells", a tuple of states `[B, M]` for each cell, "attentional", the previous output
        `[B, M]`, and with `coverage_attention` "coverage", float32 `[B, S]`.

        Args:
            encoder_outputs: `[B, S, M]`.
            mask: Boolean `[B, S]`, False for padding. Default None.
        """
        if mask is None:
            mask = tf.ones(tf.shape(encoder_outputs)[:2], tf.bool)
        # A sum over many positions is too imprecise in half precision.
        counts = tf.cast(mask, tf.float32)[..., None]  # [B, S, 1]
        total = tf.reduce_sum(tf.cast(encoder_outputs, tf.float32) * counts, axis=1)
        mean = total / tf.maximum(tf.reduce_sum(counts, axis=1), 1.0)
        # [B, layers·states·M]
        projected = self.initial_projection(tf.cast(mean, self.compute_dtype))
        num_states = self.cells[0].num_states
        states = tf.split(projected, self.num_layers * num_states, axis=-1)
        cells = tuple(zip(*(states[i::num_states] for i in range(num_states)), strict=True))
        state = {"cells": cells, "attentional": tf.zeros_like(states[0])}
        if self.coverage_attention:
            state["coverage"] = tf.zeros_like(counts[..., 0])
        return state

    def _make_dropouts(self, rows: tf.Tensor, training: bool | None) -> list[Callable[..., Any]]:
        """Returns a dropout function for each cell, with the same mask in every step."""
        if not training or not self.dropout:
            return [lambda states: states] * self.num_layers
        ones = tf.ones([rows, self.hidden_dim], self.compute_dtype)
        masks = [self.dropout_layer(ones, training=training) for _ in range(self.num_layers)]
        return [functools.partial(tf.multiply, mask) for mask in masks]

    def compute_output_spec(self, inputs: Any, encoder_outputs: Any, **kwargs: Any) -> Any:
        return decoder_output_spec(self, inputs, encoder_outputs, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention": serialize_settings(self.mechanism)}
