"""A source and a target as a model sees them, and what it makes of them."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

#: So many logits are held at once, at most: 64 MB of them.
LOGITS_AT_ONCE = 2**24


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePair:
    """One sentence and its translation, in ids.

    Attributes:
        model: a model of source and target, in full precision, see `in_full_precision`.
        source: ids `[S]`, END at their end.
        target: ids `[T]` that the decoder reads, START at their beginning.
        labels: ids `[T]` that it is to write, END at their end.
    """

    model: keras.Model
    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray

    def attention_weights(self):
        """The weights of all heads by kind, each `[N, H, ·, ·]`; see `Transformer`."""
        weights = self.model.attention_weights(self.source[None], self.target[None])
        return {kind: np.array(part[0], np.float64) for kind, part in weights.items()}

    def log_probabilities(self, sources):
        """Log-probabilities `[B, T, V]` of the target after each of `sources` `[B, S]`."""
        inputs = {"source": tf.convert_to_tensor(sources), "target": self.targets(len(sources))}
        return tf.nn.log_softmax(self.model(inputs, training=False)).numpy()

    def targets(self, rows):
        """The target as many times, `[B, T]`."""
        return tf.convert_to_tensor(np.tile(self.target, (rows, 1)))

    def chosen(self, values):
        """Of values `[..., T, V]` those of the labels, `[..., T]`."""
        return values[..., np.arange(len(self.labels)), self.labels]

    def portions(self, rows):
        """Slices of so many rows that a model can be given at once."""
        vocabulary = self.model.output_shape[-1]
        size = max(1, LOGITS_AT_ONCE // (len(self.target) * vocabulary))
        return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def in_full_precision(model):
    """The model, or, of one in half precision, its twin in float32 with equal weights.

    Gradients and differences of probabilities are too small for half precision.
    """
    if keras.backend.standardize_dtype(model.dtype_policy.compute_dtype) in ("float32", "float64"):
        return model
    twin = type(model).from_config({**model.get_config(), "dtype": "float32"})
    twin.set_weights(model.get_weights())
    return twin
