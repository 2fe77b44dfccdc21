"""Decoding with OpenNMT-tf, in a tf.function as in its SavedModel. Runs in `opennmt/`."""

import common as c
import opennmt
import tensorflow as tf
from opennmt_model import build, features, from_opennmt, to_opennmt

options = c.decoding_options().parse_args()
weights = c.load_reference(options)
model = build(
    options.config,
    {
        "beam_width": options.beams,
        "maximum_decoding_length": c.MAX_LENGTH,
        "minimum_decoding_length": c.FORCED_LENGTH,
        "length_penalty": 1.0,
    },
    [weights[f"model.{side}.embed_positions.weight"] for side in ("encoder", "decoder")],
)
# The first call builds the variables.
source = tf.constant([[5, 6, 7, 2]])
labels = features(source)
labels["ids_out"] = source
model(features(source), labels=labels, training=True)


def set_dense(layer, name):
    layer.kernel.assign(weights[f"{name}.weight"].T)
    layer.bias.assign(weights[f"{name}.bias"])


def set_norm(layer, name):
    layer.output_layer_norm.gamma.assign(weights[f"{name}.weight"])
    layer.output_layer_norm.beta.assign(weights[f"{name}.bias"])
    layer.output_layer_norm.epsilon = 1e-5


def set_attention(layer, name):
    for attribute, short in (("queries", "q"), ("keys", "k"), ("values", "v"), ("output", "out")):
        set_dense(getattr(layer.layer, f"linear_{attribute}"), f"{name}.{short}_proj")
    set_norm(layer, f"{name}_layer_norm")


model.labels_inputter.embedding.assign(weights["model.shared.weight"][from_opennmt])
for side in ("encoder", "decoder"):
    for number, layer in enumerate(getattr(model, side).layers):
        block = f"model.{side}.layers.{number}"
        set_attention(layer.self_attention, f"{block}.self_attn")
        if side == "decoder":
            set_attention(layer.attention[0], f"{block}.encoder_attn")
        set_dense(layer.ffn.layer.inner, f"{block}.fc1")
        set_dense(layer.ffn.layer.outer, f"{block}.fc2")
        set_norm(layer.ffn, f"{block}.final_layer_norm")


@tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)])
def decode(source):
    _, predictions = model(features(source), training=False)
    return predictions["tokens"], predictions["length"]


def translate(rows):
    source = to_opennmt[c.pad(rows, max(map(len, rows)))]
    tokens, lengths = (each.numpy()[:, 0] for each in decode(tf.constant(source)))
    return [
        [
            int(token[1:]) if token[:1] == b"t" else c.UNKNOWN
            for token in row[:length]
            if token != b"</s>"
        ]
        for row, length in zip(tokens, lengths, strict=True)
    ]


c.measure_decoding(
    f"OpenNMT-tf (TF {tf.__version__})", options, translate, version=opennmt.__version__
)
