"""T5, T5 1.1, mT5 and FLAN-T5."""

from typing import Any, ClassVar

import keras
import numpy as np

from keras_transformer.hub.family import Family, register_family, set_attention
from keras_transformer.hub.reading import ConfigReader, WeightLoader
from keras_transformer.models import Transformer
from keras_transformer.text import SpecialIds

_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "gated-relu": "reglu",
    "gated-gelu": "geglu_tanh",
    "gated-silu": "swiglu",
}


@register_family("t5")
class T5Family(Family):
    """T5 models, of version 1.0 and gated ones.

    Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer"; Shazeer 2020, "GLU Variants Improve Transformer" (version 1.1); Chung et al. 2022,
    "Scaling Instruction-Finetuned Language Models" (FLAN).
    """

    default_activation = "relu"
    can_scale = True
    # These follow from `feed_forward_proj`.
    harmless: ClassVar[tuple[str, ...]] = ("is_gated_act", "dense_act_fn")

    def model_class(self, config: ConfigReader) -> type[Transformer]:
        for name in config.get("architectures") or ():
            if not str(name).endswith("ForConditionalGeneration"):
                raise config.refuse("architectures", "names that end in ForConditionalGeneration")
        return Transformer

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        layers = config.integer("num_layers")
        config.expect("num_hidden_layers", layers)
        options = {
            "num_buckets": config.integer("relative_attention_num_buckets", 32),
            "max_distance": config.integer("relative_attention_max_distance", 128),
            "scale": False,
        }
        dropout = config.number("dropout_rate", 0.1)
        activation = config.choice("feed_forward_proj", _ACTIVATIONS, self.default_activation)
        # Without weights of its own, the output layer is the embedding.
        has_output = "lm_head.weight" in self.tensors
        # Version 1.0 ties both, and scales the outputs of the decoder.
        is_tied = config.boolean("tie_word_embeddings", True)
        self.scales_outputs: bool = self.can_scale and config.boolean(
            "scale_decoder_outputs", is_tied
        )
        return {
            "vocabulary_size": config.integer("vocab_size"),
            "hidden_dim": config.integer("d_model"),
            "num_encoder_layers": layers,
            "num_decoder_layers": config.get("num_decoder_layers") or layers,
            "num_heads": config.integer("num_heads"),
            "key_dim": config.integer("d_kv"),
            "intermediate_dim": config.integer("d_ff"),
            # There is no limit; this is the length in pretraining.
            "max_length": config.integer("n_positions", 512),
            "attention": "relative_bias",
            "attention_options": options,
            "positions": "none",
            "activation": activation,
            "dropout": dropout,
            "attention_dropout": dropout,
            "activation_dropout": dropout,
            "normalization": "rms",
            "normalize_first": True,
            "use_bias": False,
            "scale_embeddings": False,
            "share_embeddings": "inputs" if has_output and not self.scales_outputs else "all",
            "epsilon": config.number("layer_norm_epsilon", 1e-6),
        }

    def special_ids(self, config: ConfigReader) -> SpecialIds:
        padding = config.integer("pad_token_id", 0)
        return SpecialIds(
            padding=padding,
            unknown=2,
            start=config.integer("decoder_start_token_id", padding),
            end=config.integer("eos_token_id", 1),
        )

    def load_weights(self, model: Any, weights: WeightLoader) -> None:
        table, output = model.predictor.embedding.embeddings, model.predictor.output.embeddings
        weights.assign(table, "shared.weight")
        for side in ("encoder", "decoder"):
            weights.same(f"{side}.embed_tokens.weight", table)
        if output is table:
            weights.same("lm_head.weight", table)
        else:
            weights.assign(output, "lm_head.weight")
        for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            first = stack.blocks[0].self_attention.mechanism
            bias = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            weights.assign(first.biases, bias)
            for index, block in enumerate(stack.blocks):
                _load_block(block, weights, f"{name}.block.{index}.layer")
            weights.norm(stack.norm, f"{name}.final_layer_norm")
        # Some conversions have one more table, which is not used.
        weights.skip("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight")
        if self.scales_outputs:
            scale, factor = model.decoder.norm.scale, table.shape[1] ** -0.5
            weights.set(scale, keras.ops.convert_to_numpy(scale) * np.float32(factor))


@register_family("mt5")
class MT5Family(T5Family):
    """mT5 models: Xue et al. 2021, "mT5: A Massively Multilingual Pre-trained Text-to-Text
    Transformer".
    """

    default_activation = "gated-gelu"
    can_scale = False


def _load_block(block: Any, weights: WeightLoader, name: str) -> None:
    """Assigns the weights of a block of an encoder or a decoder."""
    names = {"query": "q", "key": "k", "value": "v", "output": "o"}
    set_attention(weights, block.self_attention, f"{name}.0.SelfAttention", **names)
    weights.norm(block.self_attention_residual.norm, f"{name}.0.layer_norm")
    last = 1
    if getattr(block, "cross_attention", None) is not None:
        last = 2
        cross = block.cross_attention
        set_attention(weights, cross, f"{name}.1.EncDecAttention", **names)
        weights.norm(block.cross_attention_residual.norm, f"{name}.1.layer_norm")
        # T5 does not divide scores by sqrt(D).
        kernel = cross.query_projection.kernel
        scale = np.float32((kernel.shape[1] / cross.num_heads) ** 0.5)
        weights.set(kernel, keras.ops.convert_to_numpy(kernel) * scale)
    network = block.feed_forward
    dense = f"{name}.{last}.DenseReluDense"
    if network.linear is None:
        weights.dense(network.inner, f"{dense}.wi")
    else:
        weights.dense(network.inner, f"{dense}.wi_0")
        weights.dense(network.linear, f"{dense}.wi_1")
    weights.dense(network.outer, f"{dense}.wo")
    weights.norm(block.feed_forward_residual.norm, f"{name}.{last}.layer_norm")
