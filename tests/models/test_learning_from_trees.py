"""Tasks whose answer follows from the tree alone: only models that read it can learn them."""

import keras
import numpy as np
import pytest

from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.models import Transformer

LENGTH, BATCH, STEPS = 5, 128, 90


def roots(random, count):
    """All words depend on one word, the answer. Their depths determine it."""
    answers = random.integers(LENGTH, size=count)
    heads = np.repeat(answers[:, None] + 1, LENGTH, axis=1)
    heads[np.arange(count), answers] = 0
    return heads, answers


def heads_of_the_first(random, count):
    """The last word is the root, and the first depends on a word between, the answer.

    Every word has the same depth in all sentences, so only the distances determine it.
    """
    answers = random.integers(1, LENGTH - 1, size=count)
    heads = np.full((count, LENGTH), LENGTH)
    heads[:, 0], heads[:, -1] = answers + 1, 0
    return heads, answers


def examples(task, count, seed):
    """Sentences of random words, a token each; the label is the word that is the answer."""
    random = np.random.default_rng(seed)
    words = random.integers(4, 24, (count, LENGTH))
    heads, answers = task(random, count)
    ends = np.full((count, 1), 3)
    inputs = {
        "source": np.hstack([words, ends]),
        "target": np.full((count, 1), 2),
        "source_words": np.tile([*range(1, LENGTH + 1), 0], (count, 1)),
        "source_heads": heads,
    }
    return inputs, words[np.arange(count), answers][:, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "tree_positions", "is_learned"),
    [
        (roots, "absolute", True),
        (heads_of_the_first, "absolute", False),
        (heads_of_the_first, "relative", True),
    ],
)
def test_model_learns_the_task_if_its_tree_positions_determine_the_answer(
    task, tree_positions, is_learned
):
    model = Transformer.from_size(
        "tiny",
        vocabulary_size=24,
        hidden_dim=32,
        intermediate_dim=32,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.0,
        normalize_first=True,
        tree_positions=tree_positions,
    )
    model.compile(keras.optimizers.Adam(5e-3), TokenCrossEntropy())

    def read(inputs):
        return {name: inputs[name] for name in model.input}

    inputs, labels = examples(task, BATCH * STEPS, seed=1)
    model.fit(read(inputs), labels, batch_size=BATCH, verbose=0, shuffle=False)
    inputs, labels = examples(task, 400, seed=2)
    right = np.mean(model(read(inputs)).numpy().argmax(-1) == labels)
    # A model without these tree positions guesses one of three words.
    assert right > 0.95 if is_learned else right < 0.5
