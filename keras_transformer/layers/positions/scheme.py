"""What the schemes share: where positions come from, and how they join the embeddings."""

import keras
from keras import ops

from keras_transformer._utils.checks import require_choice, require_rank
from keras_transformer.layers.registry import register

SCHEMES = {}


def register_positions(name):
    """Decorator: makes a `PositionEncoding` known by `name` to models, recipes and tests."""
    return register(SCHEMES, name)


def make_positions(scheme, **options):
    """Returns a new layer of the scheme registered by that name."""
    return SCHEMES[require_choice("positions", scheme, SCHEMES)](**options)


class PositionEncoding(keras.layers.Layer):
    """Base of the schemes that add something to embeddings according to their position.

    A scheme is one file in this folder: it registers a name and implements `encode`. Schemes that
    act on the scores of attention (Shaw, rotary, ALiBi) are mechanisms and live in
    `layers/attention/`.

    Call arguments:
        inputs: `[B, T, M]`.
        positions: optional integers `[B, T]` or `[T]`, where positions are not simply counted:
            packed documents that each start at 0, depths in a tree.
        offset: position of the first input, an integer or scalar tensor; cached decoding passes the
            number of steps done. Not used when `positions` is given.
    """

    #: Does it have an end, given as `max_length`?
    is_bounded = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, positions=None, offset=0):
        require_rank("inputs", inputs, {3: "B, T, M"})
        if positions is None:
            self.check_length(inputs.shape[1], offset)
            positions = offset + ops.arange(ops.shape(inputs)[1], dtype="int32")  # [T]
        else:
            require_rank("positions", positions, {1: "T", 2: "B, T"})
        encoded = self.encode(positions, inputs.shape[-1])  # [T, M] or [B, T, M]
        return inputs + ops.cast(encoded, inputs.dtype)

    def encode(self, positions, hidden_dim):
        """What is added at `positions`, integers of any shape: one more axis, of size `hidden_dim`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `encode`.")

    def check_length(self, length, offset):
        """Raises `ValueError` if it is known already that positions will not reach so far.

        Args:
            length: an integer, or None where it is not known yet.
            offset: an integer or a scalar tensor.
        """
        if self.is_bounded:
            raise NotImplementedError(f"{type(self).__name__} must implement `check_length`.")

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
