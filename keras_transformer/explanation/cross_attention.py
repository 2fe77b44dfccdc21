"""Attention from decoder to encoder with other weights than the model's own."""

import contextlib

from keras_transformer.explanation.replaced_method import replaced_method
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.attention.softmax_attention import SoftmaxAttention


def cross_mechanisms(model):
    """The mechanisms by which a model's decoder attends to its source, first block first.

    A model that has layers called `cross_attention` attends by these. In one that has none, such as
    a recurrent one, all attention is to the source. Only mechanisms that mix values by weights, as
    a `SoftmaxAttention` does, are found: `Chunked`, which is one, never has all of its weights.
    """
    # The model's own layers stand in the order of its graph; what they are made of does not matter.
    layers = [part for layer in model.layers for part in layer._flatten_layers()]
    cross = [
        layer.mechanism
        for layer in layers
        if isinstance(layer, MultiHeadAttention) and layer.name == "cross_attention"
    ]
    return [each for each in cross or layers if _mixes_by_weights(each)]


def _mixes_by_weights(layer):
    return isinstance(layer, SoftmaxAttention) and type(layer).call is SoftmaxAttention.call


@contextlib.contextmanager
def changed_weights(mechanisms, change):
    """Within it, mechanisms have other weights than those they have found.

    Values are mixed by them, and so is what else a model does by its weights: copying from the
    source, or adding up what has been attended to.

    Args:
        mechanisms: `SoftmaxAttention`s, from `cross_mechanisms`.
        change: a function from weights `[B, H, T, S]` to as many others.

    Example:

    ```python
    with changed_weights(cross_mechanisms(model), lambda weights: weights[..., ::-1]):
        logits = model(inputs)
    ```
    """

    def changing(weigh):
        return lambda scores: change(weigh(scores))

    with contextlib.ExitStack() as stack:
        for mechanism in mechanisms:
            stack.enter_context(replaced_method(mechanism, "weigh", changing))
        yield
