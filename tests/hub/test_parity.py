"""Models from small checkpoints against what Hugging Face computed with them."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import SearchSettings
from keras_transformer.hub import Checkpoint, load_model
from keras_transformer.hub.generation import search_of
from tests.hub.small_checkpoint import CHECKPOINTS

LONGEST = 24
#: The searches of `make_checkpoints.py`, in the words of `generation_config.json`.
SEARCHES = {
    "greedy": {"num_beams": 1},
    "beam": {"num_beams": 3, "length_penalty": 1.0, "early_stopping": False},
    "beam_early": {"num_beams": 4, "length_penalty": 0.6, "early_stopping": True},
    "beam_never": {"num_beams": 3, "length_penalty": 0.5, "early_stopping": "never"},
}
SEQ2SEQ = sorted(
    path.name
    for path in CHECKPOINTS.iterdir()
    if "encoder_states" in np.load(path / "expected.npz")
)


@functools.cache
def opened(name):
    """Returns the checkpoint, its model and the expected values."""
    checkpoint = Checkpoint.open(CHECKPOINTS / name)
    with np.load(CHECKPOINTS / name / "expected.npz") as stored:
        return checkpoint, load_model(checkpoint), dict(stored)


def assert_close(got, expected):
    """Compares values to 1e-4 of the largest."""
    scale = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * scale)


def tokens_of(ids, end):
    """Returns each row up to its end token."""
    return [[int(i) for i in row[: list(row).index(end) + 1]] for row in np.asarray(ids)]


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_states_and_logits_equal_those_of_hugging_face(name):
    _, model, expected = opened(name)
    source, target = expected["source"], expected["target"]
    is_token = source != model.special_ids.padding
    states = model.encode(source).states.numpy()
    assert_close(states[is_token], expected["encoder_states"][is_token])
    logits = model({"source": source, "target": target}, training=False)
    assert_close(logits.numpy(), expected["logits"])


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_cached_steps_equal_logits_of_hugging_face(name):
    _, model, expected = opened(name)
    target = expected["target"]
    state = model.initial_state(model.encode(expected["source"]), max_length=target.shape[1])
    first, state = model.step(target[:, :4], state)
    steps = [first.numpy()]
    for position in range(4, target.shape[1]):
        logits, state = model.step(target[:, position], state)
        steps.append(logits.numpy()[:, None])
    assert_close(np.concatenate(steps, axis=1), expected["logits"])


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_searches_find_the_texts_of_hugging_face(name):
    checkpoint, model, expected = opened(name)
    generation = dict(checkpoint.generation or {})
    for search, settings in SEARCHES.items():
        if search not in ("greedy", "beam") and name != "bart":
            continue  # tracing takes most of the time
        given = {**generation, "max_new_tokens": LONGEST, **settings}
        changed = Checkpoint(checkpoint.directory, checkpoint.config, given, checkpoint.tensors)
        found = SearchSettings(**search_of(changed, model.special_ids)).make(
            special_ids=model.special_ids
        )
        run = tf.function(functools.partial(found, model), autograph=False)
        ids = run(source=tf.constant(expected["source"])).ids[:, 0]
        end = model.special_ids.end
        assert tokens_of(ids, end) == tokens_of(expected[search], end), search
