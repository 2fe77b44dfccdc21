"""Rollout against the product of whole matrices, written out."""

import numpy as np

from keras_transformer.analysis.explain import attributions as attention_rollout


def rows_of_one(generator, *shape, causal=False):
    weights = generator.random(shape)
    if causal:
        weights = np.tril(weights)
    return weights / weights.sum(axis=-1, keepdims=True)


def test_it_is_the_product_over_all_blocks_of_source_and_target_as_one_sequence(random):
    """As the paper has it, with one matrix of S + T places for each sublayer."""
    blocks, heads, sources, targets = 2, 3, 4, 3
    encoder = rows_of_one(random, blocks, heads, sources, sources)
    decoder = rows_of_one(random, blocks, heads, targets, targets, causal=True)
    cross = rows_of_one(random, blocks, heads, targets, sources)
    size = sources + targets
    reached = np.eye(size)
    for block in range(blocks):
        sublayer = np.eye(size)
        sublayer[:sources, :sources] = encoder[block].mean(axis=0)
        reached = (sublayer + np.eye(size)) / 2 @ reached
    for block in range(blocks):
        sublayer = np.eye(size)
        sublayer[sources:, sources:] = decoder[block].mean(axis=0)
        reached = (sublayer + np.eye(size)) / 2 @ reached
        sublayer = np.eye(size)
        sublayer[sources:] = 0
        sublayer[sources:, :sources] = cross[block].mean(axis=0)
        reached = (sublayer + np.eye(size)) / 2 @ reached
    np.testing.assert_allclose(reached.sum(axis=1), 1)
    np.testing.assert_allclose(
        attention_rollout(encoder, decoder, cross), reached[sources:, :sources]
    )
