"""Which source tokens a translation leans on, to first order."""

import contextlib

import numpy as np
import tensorflow as tf

from keras_transformer.layers import MultiHeadAttention, TokenEmbedding
from keras_transformer.layers.attention.mechanism import SoftmaxAttention
from keras_transformer.text import PADDING_ID


@contextlib.contextmanager
def replaced_method(layer, name, make):
    """Within it, a method of one layer is another; whatever happens, it is itself again afterwards.

    Nothing is saved, tracked or traced anew, and no other layer notices. A model that is used by
    another thread meanwhile is changed there, too.

    Args:
        layer: a Keras layer.
        name: of the method.
        make: a function from the method to what takes its place.

    >>> import keras
    >>> layer, three = keras.layers.Identity(), keras.ops.convert_to_tensor(3.0)
    >>> with replaced_method(layer, "call", lambda call: lambda inputs: 2 * call(inputs)):
    ...     float(layer(three))
    6.0
    >>> float(layer(three))
    3.0
    """
    outer = vars(layer).get(name)  # of a context around this one
    # Past Keras, which would look for variables to track.
    object.__setattr__(layer, name, make(getattr(layer, name)))
    try:
        yield
    finally:
        if outer is None:
            object.__delattr__(layer, name)
        else:
            object.__setattr__(layer, name, outer)


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


def cross_mechanisms(model):
    """The mechanisms by which a model's decoder attends to its source, first block first.

    A model that has layers called `cross_attention` attends by these. In one that has none, such as
    a recurrent one, all attention is to the source. Only mechanisms that mix values by weights, as
    a `SoftmaxAttention` does, are found: `ChunkedAttention`, which is one, never has all of its weights.
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


def erasure(pair):
    """How much less likely each target token is without each source token, `[T, S]` in nats.

    Li et al. 2016, "Understanding Neural Networks through Representation Erasure"; Jain & Wallace
    2019 call it leave-one-out. A token is erased by padding in its place, which nothing attends to
    and which leaves the positions of the others as they are. Above 0 the source token speaks for
    the target token, as with `gradient_times_input`, which estimates what is measured here.

    Args:
        pair: a `SentencePair`.
    """
    length = len(pair.source)
    sources = np.tile(pair.source, (length, 1))
    np.fill_diagonal(sources, PADDING_ID)
    whole = pair.chosen(pair.log_probabilities(pair.source[None]))  # [1, T]
    without = [pair.chosen(pair.log_probabilities(sources[part])) for part in pair.portions(length)]
    return (whole - np.concatenate(without)).T


def gradient_times_input(pair):
    """The product of each source embedding with the gradient of each target token, `[T, S]`.

    Shrikumar et al. 2016, "Not Just a Black Box: Learning Important Features Through Propagating
    Activation Differences". The gradient is that of the log-probability of the token that stands in
    the target, in nats, with respect to the embedding before positions are added; the product is
    summed over its dimensions. Above 0 a source token speaks for the target token: to first order
    the log-probability would fall by so much if the embedding were 0. Its size, without the sign,
    is what Jain & Wallace 2019 compare with attention (section 4.1).

    Args:
        pair: a `SentencePair`.
    """
    targets = len(pair.labels)
    # A copy of the sentence for each target token, so that one pass gives all gradients.
    found = [_products(pair, range(targets)[part]) for part in pair.portions(targets)]
    return np.concatenate(found)


def _products(pair, places):
    """Rows of `gradient_times_input`, of some places of the target."""
    model, rows = pair.model, len(places)
    seen = []

    def watching(call):
        def embed(inputs, *arguments, **options):
            embedded = call(inputs, *arguments, **options)
            tape.watch(embedded)
            seen.append(embedded)
            return embedded

        return embed

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        # Only the source is embedded here, even where both sides share a table.
        with contextlib.ExitStack() as stack:
            for layer in model.layers:
                if isinstance(layer, TokenEmbedding):
                    stack.enter_context(replaced_method(layer, "call", watching))
            memory = model.encode(tf.convert_to_tensor(np.tile(pair.source, (rows, 1))))
        state = model.initial_state(memory, max_length=len(pair.target))
        logits, _ = model.step(pair.targets(rows), state)  # [B, T, V]
        own = tf.gather(logits, list(places), axis=1, batch_dims=1)  # [B, V]
        log_probabilities = tf.nn.log_softmax(own)
        labels = tf.convert_to_tensor(pair.labels[list(places)])
        total = tf.reduce_sum(tf.gather(log_probabilities, labels, axis=1, batch_dims=1))
    (embedded,) = seen
    return tf.reduce_sum(tape.gradient(total, embedded) * embedded, axis=-1).numpy()
