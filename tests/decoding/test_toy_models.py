"""The toy models compared with the functions that the reference uses."""

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding.reference import START
from tests.decoding.toy_models import (
    PromptModel,
    TableModel,
    random_sources,
    random_tables,
    row_model,
)

TABLES = random_tables(1)
SOURCES = random_sources(1, rows=3)
TOKENS = np.array([[4, 5, 3, 6, 4, 1], [6, 6, 5, 4, 4, 5], [1, 4, 5, 6, 6, 4]])  # three rows of two


@pytest.mark.parametrize(
    ("shares_memory", "mode"), [(True, "eager"), (False, "graph"), (True, "xla")]
)
def test_table_model_equals_its_row_models(shares_memory, mode):
    def steps(tables, sources):
        model = TableModel(tables, shares_memory)
        state = model.initial_state(model.encode(sources), max_length=4)
        state = {
            name: tensor if name in ("memory", "position") else tf.repeat(tensor, 2, axis=0)
            for name, tensor in state.items()
        }
        outputs, ids = [], tf.fill([6], START)
        for t in range(4):
            logits, attention, state = model.step(ids, state, return_attention=True)
            outputs.append((logits, attention))
            ids = tf.constant(TOKENS[min(t, 2)], tf.int32)
        return outputs

    run = steps if mode == "eager" else tf.function(steps, jit_compile=mode == "xla")
    for t, (logits, attention) in enumerate(run(TABLES, SOURCES)):
        for r in range(6):
            source = SOURCES[r // 2]
            expected = row_model(TABLES, source)(tuple(TOKENS[:t, r].tolist()))
            np.testing.assert_allclose(logits[r], expected[0], atol=1e-6)
            length = np.count_nonzero(source)
            np.testing.assert_allclose(attention[r, :length], expected[1], atol=1e-6)
            assert np.all(attention[r, length:] == 0)


def test_prompt_model_equals_row_model_without_source():
    model = PromptModel(TABLES)
    state = model.initial_state(2, max_length=2)
    _, state = model.step(tf.constant([START, START]), state)
    logits, _ = model.step(tf.constant([4, 5]), state)
    for token, row in zip((4, 5), logits, strict=True):
        np.testing.assert_allclose(row, row_model(TABLES)((token,))[0], atol=1e-6)
