"""Training steps with `model.fit` of Keras models, from KerasHub or plain Keras layers.

--layers hub: KerasHub's TransformerEncoder, TransformerDecoder and ReversibleEmbedding.
--layers keras: keras.layers.MultiHeadAttention and Dense, connected as in TensorFlow's tutorial on
Transformers. Its logits have weights of their own, as there, unless --tied is given.

Runs in `keras/`.
"""

import os

import common as c
import keras
import tensorflow as tf

parser = c.training_options()
parser.add_argument("--layers", choices=("hub", "keras"), default="hub")
parser.add_argument("--tied", action="store_true", help="one table for embeddings and logits")
parser.add_argument("--jit", action="store_true", help="compile with XLA")
parser.add_argument("--flash", choices=("auto", "on", "off"), default="auto")
options = parser.parse_args()

tf.config.threading.set_intra_op_parallelism_threads(c.THREADS)
tf.config.threading.set_inter_op_parallelism_threads(c.THREADS)
keras.utils.set_random_seed(0)
wanted = c.wanted_model(options)
dim, num_heads, rate = wanted.hidden_dim, wanted.num_heads, wanted.dropout
source = keras.Input((None,), dtype="int32", name="source")
target = keras.Input((None,), dtype="int32", name="target")


class Embed(keras.layers.Layer):
    """Scaled token embeddings plus sinusoidal positions, with a mask for padding."""

    def __init__(self, table, **settings):
        super().__init__(**settings)
        self.table = table
        self.supports_masking = True
        self.positions = keras.ops.convert_to_tensor(c.sine_positions(64, dim))
        self.dropout = keras.layers.Dropout(rate)

    def compute_mask(self, ids, mask=None):
        return keras.ops.not_equal(ids, c.PADDING)

    def call(self, ids, training=None):
        length = keras.ops.shape(ids)[1]
        embedded = self.table(ids) * dim**0.5 + self.positions[None, :length]
        return self.dropout(embedded, training=training)


class TiedLogits(keras.layers.Layer):
    """Product with the table of embeddings."""

    def __init__(self, table, **settings):
        super().__init__(**settings)
        self.table = table

    def call(self, states):
        return keras.ops.matmul(states, keras.ops.transpose(self.table.embeddings))


def feed_forward(states):
    inner = keras.layers.Dense(wanted.intermediate_dim, activation="relu")(states)
    outer = keras.layers.Dropout(rate)(keras.layers.Dense(dim)(inner))
    return keras.layers.LayerNormalization()(keras.layers.Add()([states, outer]))


def attend(query, value, **settings):
    attention = keras.layers.MultiHeadAttention(num_heads, dim // num_heads, dropout=rate)
    attended = attention(query=query, value=value, key=value, **settings)
    return keras.layers.LayerNormalization()(keras.layers.Add()([query, attended]))


if options.layers == "hub":
    import keras_hub

    table = keras_hub.layers.ReversibleEmbedding(wanted.vocabulary_size, dim, tie_weights=True)
    embed = Embed(table)
    memory = embed(source)
    for _ in range(wanted.num_layers):
        layer = keras_hub.layers.TransformerEncoder
        memory = layer(wanted.intermediate_dim, num_heads, dropout=rate)(memory)
    states = embed(target)
    for _ in range(wanted.num_layers):
        layer = keras_hub.layers.TransformerDecoder
        states = layer(wanted.intermediate_dim, num_heads, dropout=rate)(states, memory)
    logits = table(states, reverse=True)
    version = keras_hub.__version__
else:
    table = keras.layers.Embedding(wanted.vocabulary_size, dim)
    embed = Embed(table)
    memory = embed(source)
    for _ in range(wanted.num_layers):
        memory = feed_forward(attend(memory, memory))
    states = embed(target)
    for _ in range(wanted.num_layers):
        states = attend(states, states, use_causal_mask=True)
        states = feed_forward(attend(states, memory))
    head = TiedLogits(table) if options.tied else keras.layers.Dense(wanted.vocabulary_size)
    logits = head(states)
    version = keras.__version__

model = keras.Model([source, target], logits)


def compute_loss(labels, logits):
    """Returns the mean cross-entropy of the labels, padding left out."""
    mask = keras.ops.cast(keras.ops.not_equal(labels, c.PADDING), logits.dtype)
    losses = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return keras.ops.sum(losses * mask) / keras.ops.sum(mask)


model.compile(
    optimizer=keras.optimizers.Adam(1e-4),
    loss=compute_loss,
    jit_compile=True if options.jit else "auto",
)
if options.flash == "on":
    keras.config.enable_flash_attention()
elif options.flash == "off":
    keras.config.disable_flash_attention()


def run(batches):
    def generate():
        for source, target, labels in batches:
            yield (source, target), labels

    ids = tf.TensorSpec((None, None), tf.int32)
    dataset = tf.data.Dataset.from_generator(generate, output_signature=((ids, ids), ids))
    model.fit(dataset.prefetch(2), epochs=1, verbose=0)


onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
peer = "keras-hub" if options.layers == "hub" else "Keras layers" + ", tied" * options.tied
c.measure_training(
    peer + " jit" * options.jit + (f" onednn={onednn}" if onednn else ""),
    options,
    run,
    params=int(model.count_params()),
    version=version,
    resolved_jit=bool(model.jit_compile),
)
