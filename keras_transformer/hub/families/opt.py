"""OPT."""

from typing import Any, ClassVar

from keras_transformer.hub.bart_like import ACTIVATIONS, load_block
from keras_transformer.hub.causal import CausalFamily, shared_embeddings
from keras_transformer.hub.family import register_family
from keras_transformer.hub.reading import ConfigReader, WeightLoader

# Number of unused rows at the beginning of the table of positions.
_UNUSED_POSITIONS = 2


@register_family("opt")
class OPTFamily(CausalFamily):
    """OPT models.

    Zhang et al. 2022, "OPT: Open Pre-trained Transformer Language Models".
    """

    prefixes: ClassVar[tuple[str, ...]] = ("model.decoder.", "decoder.", "model.")

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        hidden_dim = config.integer("hidden_size")
        config.expect("word_embed_proj_dim", hidden_dim)
        config.expect("enable_bias", True)
        config.expect("layer_norm_elementwise_affine", True)
        normalize_first = config.boolean("do_layer_norm_before", True)
        has_norm = normalize_first and not config.boolean("_remove_final_layer_norm", False)
        return {
            "vocabulary_size": config.integer("vocab_size"),
            "hidden_dim": hidden_dim,
            "num_layers": config.integer("num_hidden_layers"),
            "num_heads": config.integer("num_attention_heads"),
            "intermediate_dim": config.integer("ffn_dim"),
            "max_length": config.integer("max_position_embeddings"),
            "activation": config.choice("activation_function", ACTIVATIONS, "relu"),
            "dropout": config.number("dropout", 0.1),
            "attention_dropout": config.number("attention_dropout", 0.0),
            "activation_dropout": config.number("activation_dropout", 0.0),
            "positions": "learned",
            "normalize_first": normalize_first,
            "final_normalization": has_norm,
            "scale_embeddings": False,
            "share_embeddings": shared_embeddings(config),
            "epsilon": 1e-5,
        }

    def load_weights(self, model: Any, weights: WeightLoader) -> None:
        self.load_embeddings(model, weights, "embed_tokens.weight")
        decoder = model.decoder
        table, name = decoder.positions.embeddings, "embed_positions.weight"
        weights.assign(table, name, lambda values: values[_UNUSED_POSITIONS:])
        if decoder.norm is not None:
            weights.norm(decoder.norm, "final_layer_norm")
        for index, block in enumerate(decoder.blocks):
            load_block(block, weights, f"layers.{index}")
