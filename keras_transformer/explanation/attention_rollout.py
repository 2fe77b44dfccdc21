"""Attention followed through all blocks, from what is written back to what was read."""

import numpy as np


def attention_rollout(encoder, decoder, cross):
    """How much of each source token has come to each target token, by the weights alone.

    Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3: in every block
    half of a state is what came by the residual path, half what was attended to, heads counting
    alike; and the shares of blocks are multiplied. The paper rolls out an encoder. Here the same
    rule goes on through the decoder, whose blocks mix twice: with earlier target tokens, then with
    the encoder's states.

    Args:
        encoder: weights of self-attention `[N, H, S, S]`.
        decoder: of causal self-attention `[N, H, T, T]`.
        cross: of the attention from decoder to encoder `[N, H, T, S]`.

    Returns:
        `[T, S]`. What is missing to 1 in a row is the share of the target tokens before it.

    >>> identity = np.eye(2)[None, None]
    >>> attention_rollout(identity, identity, np.array([[[[0.0, 1.0], [0.5, 0.5]]]]))
    array([[0.  , 0.5 ],
           [0.25, 0.25]])
    """
    memory = encoder_rollout(encoder)  # [S, S]
    reached = np.zeros(cross.shape[2:])  # [T, S]
    for self_weights, cross_weights in zip(decoder, cross, strict=True):
        reached = _with_residual(self_weights) @ reached
        reached = 0.5 * reached + 0.5 * cross_weights.mean(axis=0) @ memory
    return reached


def encoder_rollout(encoder):
    """How much of each source token has come to each state of the memory, `[S, S]`."""
    reached = np.eye(encoder.shape[-1])
    for weights in encoder:
        reached = _with_residual(weights) @ reached
    return reached


def _with_residual(weights):
    """Heads `[H, T, T]` as one, with half of each state left as it was: `[T, T]`."""
    return 0.5 * weights.mean(axis=0) + 0.5 * np.eye(weights.shape[-1])
