"""A sentence pair with an untrained model, and an explanation without a model."""

import keras
import numpy as np

from keras_transformer import Transformer
from keras_transformer.analysis.explain import Explanation
from keras_transformer.analysis.explain.measurements import SentencePair, WeightChange

SOURCE = np.array([5, 9, 7, 5, 3], np.int32)
TARGET = np.array([2, 11, 6, 8], np.int32)
LABELS = np.array([11, 6, 8, 3], np.int32)


def make_pair(**settings):
    """Returns a pair of five source and four target tokens, and a model with two blocks."""
    keras.utils.set_random_seed(3)
    model = Transformer.from_size(
        "tiny",
        **{
            "vocabulary_size": 20,
            "hidden_dim": 16,
            "intermediate_dim": 32,
            "num_heads": 2,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "normalize_first": True,
            **settings,
        },
    )
    return SentencePair(model, SOURCE, TARGET, LABELS)


def make_explanation(
    source_tokens=("▁a", "▁b", "▁c", "<end>"),
    target_tokens=("▁x", "<end>"),
    gradient=None,
    moved=0.4,
):
    """Returns an `Explanation` whose attention decreases from left to right.

    Args:
        source_tokens: the source tokens.
        target_tokens: the target tokens.
        gradient: values of gradient and erasure for each source token. Default: as attention.
        moved: total variation of the changes with other weights. None: no changes.
    """
    columns, rows = len(source_tokens), len(target_tokens)
    falling = np.tile(np.arange(columns, 0, -1.0), (rows, 1)) / columns
    generator = np.random.default_rng(7)
    measures = {
        "attention": falling,
        "rollout": falling**2,
        "gradient": falling if gradient is None else np.tile(gradient, (rows, 1)),
        "erasure": falling if gradient is None else np.tile(gradient, (rows, 1)) * 2,
    }
    changes = tuple(
        WeightChange(
            kind,
            None,
            np.full((draws, rows), moved),
            np.full((draws, rows), moved / 2),
            np.full((draws, rows), moved > 0.3),
        )
        for kind, draws in (("shuffled", 3), ("uniform", 1))
        if moved is not None
    )
    return Explanation(
        model="runs/small",
        source="a b c",
        target="x",
        is_own=True,
        source_tokens=tuple(source_tokens),
        target_tokens=tuple(target_tokens),
        read_tokens=("<start>", *target_tokens[:-1]),
        probabilities=np.full(rows, 0.9),
        heads={
            "cross": generator.random((1, 2, rows, columns)),
            "encoder": generator.random((1, 2, columns, columns)),
            "decoder": generator.random((1, 2, rows, rows)),
        },
        measures=measures,
        changes=changes,
        seed=0,
    )
