"""The recurrent decoder's layers, which attend to a memory at each step."""

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_boolean, require_positive_integer, require_rate
from keras_transformer.layers.attention.mechanism import make_mechanism, serialize_mechanism
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.recurrence import make_cell, run_over_time
from keras_transformer.layers.source_attention import AttendedSource, attend_to_source


@keras.saving.register_keras_serializable(package="keras_transformer")
class AttentionRecurrence(keras.layers.Layer):
    """Recurrent layers whose last one attends to a memory, and that are fed what came of it.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
    sections 3 and 3.3: the last layer's state asks, the memory answers with a context, and both
    make the attentional vector `tanh(W [context; state])`. It is the output, and beside the next
    input ("input feeding"), so that a step knows what was attended to before.

    With `coverage_attention` a step also knows how much each place has been attended to: the sum c
    of the weights so far marks the keys, `k_i + c_i u` with a learned vector u, before they are
    scored (See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks",
    equation 11; before them Tu et al. 2016, "Modeling Coverage for Neural Machine Translation",
    section 3). With the papers' additive scores that is their term, as `U (k + c u)` is
    `U k + c (U u)`; other mechanisms that read keys get its counterpart. The vector begins at 0,
    where coverage changes nothing.

    The cells' first states are made from the mean of the memory (Sennrich et al. 2017, "Nematus: a
    Toolkit for Neural Machine Translation", section 2).

    Masking: padding of the memory is hidden by its implicit Keras mask, or by `memory_mask`. The
    outputs carry on the mask of `inputs`, whose padding must come last.

    Args:
        hidden_dim: M, of the inputs, the memory, the states and the outputs.
        num_layers: number of cells.
        cell: "lstm" or "gru".
        attention: mechanism of the attention, a registered name or an instance to take after.
        dropout: rate on what a layer passes on. Whatever is dropped, is in all steps of a sequence
            (Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent
            Neural Networks").
        coverage_attention: whether keys are marked with what has been attended to.

    Call arguments:
        inputs: `[B, T, M]`.
        memory: `[B, S, M]`.
        prepared_memory: with a `state`, in place of `memory` and its mask, what `prepare_memory`
            gave, once for all calls.
        state: what `initial_state` gave, or the call before this one; with it, `inputs` are the
            next steps alone, and there may be N rows for each of the memory, see
            `attend_to_source`. The state after them is returned last.
        offset: number of steps done before.
        return_attention_scores: whether to return the attention's weights `[B, T, S]` as well.

    Example:

    >>> x, memory = keras.Input((None, 64)), keras.Input((None, 64))
    >>> y = AttentionRecurrence(64, cell="gru")(x, memory)
    >>> keras.Model([x, memory], y).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        hidden_dim,
        num_layers=1,
        cell="lstm",
        attention="scaled_dot_product",
        dropout=0.0,
        coverage_attention=False,
        **kwargs,
    ):
        # Keras would cast all that comes in, and coverage is a sum, not for half precision.
        super().__init__(autocast=False, **kwargs)
        self.hidden_dim = require_positive_integer("hidden_dim", hidden_dim)
        self.num_layers = require_positive_integer("num_layers", num_layers)
        self.cell = cell
        self.dropout = require_rate("dropout", dropout)
        self.cells = [
            make_cell(cell, self.hidden_dim, name=f"cell_{i}", dtype=self.dtype_policy)
            for i in range(self.num_layers)
        ]
        self.mechanism = make_mechanism(attention, name="mechanism", dtype=self.dtype_policy)
        self.coverage_attention = require_boolean("coverage_attention", coverage_attention)
        self.mechanism.check_use(
            is_cached=True, is_cross=True, has_marked_keys=self.coverage_attention
        )
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.bridge = keras.layers.Dense(
            self.num_layers * self.cells[0].parts * self.hidden_dim,
            activation="tanh",
            name="bridge",
            dtype=self.dtype_policy,
        )
        self.supports_masking = True

    def build(self, inputs_shape, memory_shape):
        for name, shape in (("inputs", inputs_shape), ("memory", memory_shape)):
            if shape[-1] != self.hidden_dim:
                raise ValueError(
                    f"`{name}` must have the hidden_dim {self.hidden_dim} of AttentionRecurrence "
                    f"'{self.name}'; got {tuple(shape)}."
                )
        for cell in self.cells:
            cell.build((None, self.hidden_dim))
        self.bridge.build((None, self.hidden_dim))
        one_head = (None, 1, None, self.hidden_dim)
        self.mechanism.build(one_head, one_head, one_head)
        self.feed_kernel = self.add_weight(
            name="feed_kernel", shape=(self.hidden_dim, self.cells[0].gates * self.hidden_dim)
        )
        self.attentional_kernel = self.add_weight(
            name="attentional_kernel", shape=(2 * self.hidden_dim, self.hidden_dim)
        )
        if self.coverage_attention:
            self.coverage_mark = self.add_weight(
                name="coverage_mark", shape=(self.hidden_dim,), initializer="zeros"
            )
        self.built = True

    def call(
        self,
        inputs,
        memory=None,
        prepared_memory=None,
        state=None,
        offset=0,
        return_attention_scores=False,
        memory_mask=None,
        training=None,
    ):
        is_stepping = state is not None
        if not is_stepping:
            state = self.initial_state(memory, memory_mask)
        source = prepared_memory
        if source is None:
            source = self.prepare_memory(memory, memory_mask)
        if self.coverage_attention:
            mark = self._prepared_mark()
            if is_stepping:  # hypotheses have not attended to the same places
                source = source.for_each(tf.shape(inputs)[0])
        weights = [cell.read() for cell in self.cells]
        feed_kernel = tf.cast(self.feed_kernel, self.compute_dtype)
        attentional_kernel = tf.cast(self.attentional_kernel, self.compute_dtype)
        drop = self._make_drops(tf.shape(inputs)[0], training)

        def advance(time, given, state):
            entering = given[0] + tf.matmul(state["attentional"], feed_kernel)  # [B, G·M]
            cells = [self.cells[0].advance(entering, state["cells"][0], weights[0])]
            for i in range(1, self.num_layers):
                entering = self.cells[i].project(drop[i - 1](cells[-1][0]), weights[i])
                cells.append(self.cells[i].advance(entering, state["cells"][i], weights[i]))
            output = cells[-1][0]  # [B, M]
            has_coverage = self.coverage_attention
            attended = source.marked(mark, state["coverage"]) if has_coverage else source
            context, attention = attend_to_source(
                self.mechanism,
                output[:, None],
                attended,
                offset + time,
                return_attention_scores=return_attention_scores or has_coverage,
                training=training,
            )
            both = tf.concat([context[:, 0], output], axis=-1)  # [B, 2·M]
            attentional = drop[-1](tf.tanh(tf.matmul(both, attentional_kernel)))
            found = (attentional, attention[:, 0]) if return_attention_scores else (attentional,)
            new = {"cells": tuple(cells), "attentional": attentional}
            if has_coverage:
                coverage = state["coverage"] + tf.cast(attention[:, 0], tf.float32)  # [B, S]
                new["coverage"] = tf.ensure_shape(coverage, state["coverage"].shape)
            return found, new

        inputs = tf.transpose(tf.cast(inputs, self.compute_dtype), [1, 0, 2])  # [T, B, M]
        projected = self.cells[0].project(inputs, weights[0])
        found, state = run_over_time(
            advance,
            (projected,),  # [T, B, G·M]
            state,
            [self.compute_dtype] * (2 if return_attention_scores else 1),
        )
        outputs = tuple(tf.transpose(each, [1, 0, 2]) for each in found)
        if is_stepping:
            outputs = (*outputs, state)
        return outputs if len(outputs) > 1 else outputs[0]

    def prepare_memory(self, memory, memory_mask=None):
        """The `AttendedSource` of a memory `[B, S, M]`, made once for all steps to come."""
        memory = tf.cast(memory, self.compute_dtype)
        return AttendedSource.prepared(self.mechanism, memory, memory, memory_mask)

    def initial_state(self, memory, memory_mask=None):
        """The state before the first step.

        - "cells": for each cell a tuple of states `[B, M]`;
        - "attentional": the latest output `[B, M]`, of which there is none yet: zeros;
        - "coverage": the sums of the attention's weights `[B, S]`, with `coverage_attention`.

        Args:
            memory: `[B, S, M]`.
            memory_mask: boolean `[B, S]`, False for padding.
        """
        if memory_mask is None:
            memory_mask = tf.ones(tf.shape(memory)[:2], tf.bool)
        # Sums of many are not for half precision.
        counts = tf.cast(memory_mask, tf.float32)[..., None]  # [B, S, 1]
        total = tf.reduce_sum(tf.cast(memory, tf.float32) * counts, axis=1)
        mean = total / tf.maximum(tf.reduce_sum(counts, axis=1), 1.0)
        made = self.bridge(tf.cast(mean, self.compute_dtype))  # [B, layers·parts·M]
        parts = tf.split(made, self.num_layers * self.cells[0].parts, axis=-1)
        each = self.cells[0].parts
        state = {
            "cells": tuple(tuple(parts[i * each : (i + 1) * each]) for i in range(self.num_layers)),
            "attentional": tf.zeros_like(parts[0]),
        }
        if self.coverage_attention:
            state["coverage"] = tf.zeros_like(counts[..., 0])
        return state

    def _prepared_mark(self):
        """The vector that marks keys, as a key of its own that is prepared."""
        mark = tf.cast(self.coverage_mark, self.compute_dtype)
        return self.mechanism.prepare(mark[None, None, None])

    def _make_drops(self, rows, training):
        """A function for each layer that drops the same part of its output in every step."""
        if not training or not self.dropout:
            return [lambda states: states] * self.num_layers

        def make_drop():
            ones = tf.ones([rows, self.hidden_dim], self.compute_dtype)
            kept = self.dropout_layer(ones, training=training)
            return lambda states: states * kept

        return [make_drop() for _ in range(self.num_layers)]

    def compute_output_spec(self, inputs, memory, return_attention_scores=False, **kwargs):
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return outputs
        shape = (*inputs.shape[:2], memory.shape[1])
        return outputs, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "num_layers": self.num_layers,
            "cell": self.cell,
            "attention": serialize_mechanism(self.mechanism),
            "dropout": self.dropout,
            "coverage_attention": self.coverage_attention,
        }
