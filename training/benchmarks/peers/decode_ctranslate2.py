"""Decoding with CTranslate2. Converts the reference model first. Runs in `pytorch/`."""

import common as c
import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec, common_spec

parser = c.decoding_options()
parser.add_argument("--type", default="float32", choices=("float32", "int8"))
options = parser.parse_args()
wanted = c.wanted_model(options)
directory = c.REFERENCE / f"{options.config}_ctranslate2"
tokens = ["<pad>", "<unk>", "<s>", "</s>"]
tokens += [f"t{number}" for number in range(len(tokens), wanted.vocabulary_size)]


def convert():
    """Writes the reference model in CTranslate2's format."""
    weights = c.load_reference(options)

    def set_norm(layer, name):
        layer.gamma, layer.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]

    def set_linear(layer, *names):
        layer.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
        layer.bias = np.concatenate([weights[f"{name}.bias"] for name in names])

    def set_attention(layer, name, is_cross=False):
        query, key, value, output = (f"{name}.{part}_proj" for part in ("q", "k", "v", "out"))
        if is_cross:
            set_linear(layer.linear[0], query)
            set_linear(layer.linear[1], key, value)
        else:
            set_linear(layer.linear[0], query, key, value)
        set_linear(layer.linear[-1], output)
        set_norm(layer.layer_norm, f"{name}_layer_norm")

    spec = TransformerSpec.from_config(
        (wanted.num_layers, wanted.num_layers),
        wanted.num_heads,
        pre_norm=False,
        activation=common_spec.Activation.RELU,
    )
    for name in ("encoder", "decoder"):
        side = getattr(spec, name)
        embeddings = side.embeddings
        embeddings = embeddings[0] if isinstance(embeddings, list) else embeddings
        embeddings.weight = weights["model.shared.weight"]
        side.scale_embeddings = True
        side.position_encodings.encodings = weights[f"model.{name}.embed_positions.weight"]
        for number, layer in enumerate(side.layer):
            block = f"model.{name}.layers.{number}"
            set_attention(layer.self_attention, f"{block}.self_attn")
            if name == "decoder":
                set_attention(layer.attention, f"{block}.encoder_attn", is_cross=True)
            set_linear(layer.ffn.linear_0, f"{block}.fc1")
            set_linear(layer.ffn.linear_1, f"{block}.fc2")
            set_norm(layer.ffn.layer_norm, f"{block}.final_layer_norm")
    spec.decoder.projection.weight = weights["model.shared.weight"]
    spec.decoder.projection.bias = weights["final_logits_bias"].reshape(-1)
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.decoder_start_token = "<s>"
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=None)
    directory.mkdir(exist_ok=True)
    spec.save(str(directory))


if not (directory / "model.bin").exists():
    convert()
translator = ctranslate2.Translator(
    str(directory),
    device="cpu",
    compute_type=options.type,
    inter_threads=1,
    intra_threads=c.THREADS,
)


def translate(rows):
    found = translator.translate_batch(
        [[tokens[token] for token in row] for row in rows],
        beam_size=options.beams,
        max_decoding_length=c.MAX_LENGTH,
        min_decoding_length=c.FORCED_LENGTH or 1,
    )
    return [
        [int(token[1:]) if token[0] == "t" else c.UNKNOWN for token in each.hypotheses[0]]
        for each in found
    ]


c.measure_decoding(
    f"CTranslate2 {options.type}", options, translate, version=ctranslate2.__version__
)
