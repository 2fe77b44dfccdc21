"""One attention layer forward and backward, measured in this process."""

import statistics

from keras_transformer._utils.process import keep_freed_memory, peak_memory
from training.benchmarks.memory import MemoryPeak
from training.benchmarks.training_measurement import time_repeats

#: Heads of the layer, and their size: those of the model `tiny`.
HEADS, HEAD_WIDTH = 4, 32
# Of a text that takes next to no memory, and still several blocks of any mechanism.
_SHORT = 64


def measure_attention(*, mechanism, length, repeats, threads):
    """Returns the row of JSON of a pass and its gradient: seconds, and the memory that it adds.

    Memory is what the first pass adds to what the process holds after a pass on a short text. Then
    the process keeps what it frees, as in a training, and time is taken.

    Args:
        mechanism: the registered name; its settings are the defaults.
        length: tokens of the one text.
        repeats: how often it is timed.
        threads: how many threads TensorFlow has.
    """
    import tensorflow as tf

    gradients = make_pass(mechanism, length)
    short, full = (
        tf.random.stateless_normal([1, tokens, HEADS * HEAD_WIDTH], [1, 2])
        for tokens in (_SHORT, length)
    )
    run = gradients.get_concrete_function(tf.TensorSpec(full.shape))
    gradients.get_concrete_function(tf.TensorSpec(short.shape))(short)
    with MemoryPeak() as memory:
        run(full)
    keep_freed_memory()
    watches, _ = time_repeats(lambda: run(full)[0].numpy(), repeats, threads)
    seconds = [watch.seconds for watch in watches]
    return {
        "task": "attention",
        "mechanism": mechanism,
        "config": f"{HEADS} heads of {HEAD_WIDTH}",
        "batch": f"1x{length}",
        "metric": "seconds",
        "value": round(statistics.median(seconds), 5),
        "spread": [round(each, 5) for each in seconds],
        "added_mb": memory.added_mb,
        "peak_rss_mb": peak_memory(),
        "reps": repeats,
    }


def make_pass(mechanism, length):
    """A function from states `[B, T, M]` to the gradients of them and of the layer's weights."""
    import tensorflow as tf

    from keras_transformer.layers import MECHANISMS, MultiHeadAttention

    kind = MECHANISMS[mechanism]
    bound = {"max_length": max(length, _SHORT)} if kind.is_bounded else {}
    layer = MultiHeadAttention(HEADS, mechanism=kind(**bound))
    layer.build((None, None, HEADS * HEAD_WIDTH))

    @tf.function
    def gradients(states):
        with tf.GradientTape() as tape:
            tape.watch(states)
            loss = tf.reduce_sum(layer(states, training=True) ** 2)
        weights = [variable.value for variable in layer.trainable_variables]
        return tape.gradient(loss, [states, *weights])

    return gradients
