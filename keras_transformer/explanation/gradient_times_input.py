"""Which source tokens a translation leans on, to first order."""

import contextlib

import numpy as np
import tensorflow as tf

from keras_transformer.explanation.replaced_method import replaced_method
from keras_transformer.layers import TokenEmbedding


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
