"""Decoding with KerasHub's layers, caches and samplers, the loop in one tf.function.

Runs in `keras/`.
"""

import os

import common as c
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops

parser = c.decoding_options()
parser.add_argument("--jit", action="store_true", help="compile with XLA")
options = parser.parse_args()

tf.config.threading.set_intra_op_parallelism_threads(c.THREADS)
tf.config.threading.set_inter_op_parallelism_threads(c.THREADS)
wanted = c.wanted_model(options)
num_heads, dim, num_layers = wanted.num_heads, wanted.hidden_dim, wanted.num_layers
key_dim = dim // num_heads
length = c.MAX_LENGTH + 1
weights = c.load_reference(options)

table = keras_hub.layers.ReversibleEmbedding(wanted.vocabulary_size, dim, tie_weights=True)
encoder = [
    keras_hub.layers.TransformerEncoder(wanted.intermediate_dim, num_heads)
    for _ in range(num_layers)
]
decoder = [
    keras_hub.layers.TransformerDecoder(wanted.intermediate_dim, num_heads)
    for _ in range(num_layers)
]
source_positions = tf.constant(weights["model.encoder.embed_positions.weight"])
target_positions = tf.constant(weights["model.decoder.embed_positions.weight"])
# The first calls build the variables.
states = memory = table(np.ones((1, 5), "int32"))
for layer in encoder:
    memory = layer(memory)
for layer in decoder:
    states = layer(states, memory)


def set_attention(layer, name):
    for attribute, short in (("query_dense", "q"), ("key_dense", "k"), ("value_dense", "v")):
        dense = getattr(layer, f"_{attribute}")
        kernel, bias = (weights[f"{name}.{short}_proj.{part}"] for part in ("weight", "bias"))
        dense.kernel.assign(kernel.T.reshape(dim, num_heads, key_dim))
        dense.bias.assign(bias.reshape(num_heads, key_dim))
    kernel = weights[f"{name}.out_proj.weight"].T
    layer._output_dense.kernel.assign(kernel.reshape(num_heads, key_dim, dim))
    layer._output_dense.bias.assign(weights[f"{name}.out_proj.bias"])


def set_norm(layer, name):
    layer.gamma.assign(weights[f"{name}.weight"])
    layer.beta.assign(weights[f"{name}.bias"])


def set_dense(layer, name):
    layer.kernel.assign(weights[f"{name}.weight"].T)
    layer.bias.assign(weights[f"{name}.bias"])


def norm_of(layer, name):
    """Returns a normalization layer, whose attribute has two spellings in KerasHub."""
    attribute = f"_{name}_layer_norm"
    return getattr(layer, attribute, None) or getattr(layer, f"_{name}_layernorm")


table.embeddings.assign(weights["model.shared.weight"])
for side, layers in (("encoder", encoder), ("decoder", decoder)):
    for number, layer in enumerate(layers):
        block = f"model.{side}.layers.{number}"
        set_attention(layer._self_attention_layer, f"{block}.self_attn")
        set_norm(norm_of(layer, "self_attention"), f"{block}.self_attn_layer_norm")
        if side == "decoder":
            set_attention(layer._cross_attention_layer, f"{block}.encoder_attn")
            set_norm(norm_of(layer, "cross_attention"), f"{block}.encoder_attn_layer_norm")
        set_dense(layer._feedforward_intermediate_dense, f"{block}.fc1")
        set_dense(layer._feedforward_output_dense, f"{block}.fc2")
        set_norm(norm_of(layer, "feedforward"), f"{block}.final_layer_norm")

if options.beams == 1:
    sampler = keras_hub.samplers.GreedySampler()
else:
    sampler = keras_hub.samplers.BeamSampler(options.beams)


def generate(source):
    rows, width = ops.shape(source)[0], ops.shape(source)[1]
    mask = ops.not_equal(source, c.PADDING)
    memory = table(source) * dim**0.5 + source_positions[None, :width]
    for layer in encoder:
        memory = layer(memory, padding_mask=mask)

    def for_beams(values):
        return values if options.beams == 1 else ops.repeat(values, options.beams, axis=0)

    beam_memory, beam_mask = for_beams(memory), for_beams(mask)
    # A call with one token computes the keys and values of cross-attention.
    cross_caches, states = [], ops.zeros((rows, 1, dim))
    for layer in decoder:
        states, _, cache = layer(
            states,
            memory,
            encoder_padding_mask=mask,
            self_attention_cache=ops.zeros((rows, 2, 1, num_heads, key_dim)),
            self_attention_cache_update_index=0,
            cross_attention_cache=ops.zeros((rows, 2, width, num_heads, key_dim)),
            cross_attention_cache_update_index=0,
        )
        cross_caches.append(for_beams(cache))

    def step(prompt, cache, index):
        token = ops.slice(prompt, [0, index - 1], [ops.shape(prompt)[0], 1])
        states = table(token) * dim**0.5 + target_positions[index - 1][None, None]
        caches = []
        for number, layer in enumerate(decoder):
            states, own, _ = layer(
                states,
                beam_memory,
                encoder_padding_mask=beam_mask,
                self_attention_cache=cache[:, number],
                self_attention_cache_update_index=index - 1,
                cross_attention_cache=cross_caches[number],
            )
            caches.append(own)
        logits = ops.squeeze(table(states, reverse=True), 1)
        return logits, ops.squeeze(states, 1), ops.stack(caches, axis=1)

    start = ops.full((rows, 1), c.START, dtype="int32")
    empty = ops.zeros((rows, length - 1), dtype="int32")
    is_given = ops.concatenate(
        [ops.ones((rows, 1), dtype="bool"), ops.zeros((rows, length - 1), dtype="bool")], 1
    )
    return sampler(
        next=step,
        prompt=ops.concatenate([start, empty], 1),
        cache=ops.zeros((rows, num_layers, 2, length, num_heads, key_dim)),
        index=1,
        mask=is_given,
        stop_token_ids=None if c.FORCED_LENGTH else [c.END],
    )


signature = None if options.jit else [tf.TensorSpec((None, None), tf.int32)]
compiled = tf.function(generate, input_signature=signature, jit_compile=options.jit)


def translate(rows):
    width = max(map(len, rows))
    if not options.jit:
        source = c.pad(rows, width)
    else:  # few shapes
        width = next(bucket for bucket in c.BUCKETS if bucket >= width)
        source = c.pad([*rows, *[[c.END]] * (options.batch_size - len(rows))], width)
    found = compiled(tf.constant(source)).numpy()[: len(rows)]
    return [c.until_end(ids[1:]) for ids in found]


onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
c.measure_decoding(
    "keras-hub sampler" + " jit" * options.jit + (f" onednn={onednn}" if onednn else ""),
    options,
    translate,
    warm_up_all=options.jit,
    version=keras_hub.__version__,
)
