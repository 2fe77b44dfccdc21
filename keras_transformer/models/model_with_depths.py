"""A model that reads trees, for a search that knows tokens alone."""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class ModelWithDepths:
    """A `Transformer` with `reads_source_depths`, and the depths of the sources at hand.

    It answers what a search asks of a model, so that any search takes it in place of the model.

    Attributes:
        model: the `Transformer`.
        source_depths: depths of the source tokens, `[B, S]`.

    Example:

    >>> from keras_transformer.models import Transformer
    >>> model = Transformer.from_preset("tiny", vocabulary_size=100, reads_source_depths=True)
    >>> told = ModelWithDepths(model, tf.constant([[2, 1, 2, 0]]))
    >>> told.encode(tf.constant([[5, 6, 7, 3]])).states.shape
    TensorShape([1, 4, 128])
    """

    model: object
    source_depths: tf.Tensor

    @property
    def position_limit(self):
        return self.model.position_limit

    def encode(self, source):
        return self.model.encode(source, self.source_depths)

    def initial_state(self, memory, max_length=None):
        return self.model.initial_state(memory, max_length)

    def step(self, ids, state, return_attention=False):
        return self.model.step(ids, state, return_attention)
