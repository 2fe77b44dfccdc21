"""GPT-2."""

from typing import Any, ClassVar

import numpy as np

from keras_transformer.hub.bart_like import ACTIVATIONS
from keras_transformer.hub.causal import CausalFamily, shared_embeddings
from keras_transformer.hub.family import register_family
from keras_transformer.hub.reading import ConfigReader, WeightLoader


@register_family("gpt2")
class GPT2Family(CausalFamily):
    """GPT-2 models.

    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
    """

    architecture = "GPT2LMHeadModel"
    prefixes: ClassVar[tuple[str, ...]] = ("transformer.",)
    harmless: ClassVar[tuple[str, ...]] = (
        *("summary_type", "summary_use_proj", "summary_activation", "summary_first_dropout"),
        *("summary_proj_to_labels", "n_ctx", "reorder_and_upcast_attn", "gradient_checkpointing"),
    )

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        hidden_dim = config.integer("n_embd")
        config.expect("scale_attn_weights", True)
        config.expect("scale_attn_by_inverse_layer_idx", False)
        config.expect("embd_pdrop", dropout := config.number("resid_pdrop", 0.1))
        return {
            "vocabulary_size": config.integer("vocab_size"),
            "hidden_dim": hidden_dim,
            "num_layers": config.integer("n_layer"),
            "num_heads": config.integer("n_head"),
            "intermediate_dim": config.get("n_inner") or 4 * hidden_dim,
            "max_length": config.integer("n_positions"),
            "activation": config.choice("activation_function", ACTIVATIONS, "gelu_new"),
            "dropout": dropout,
            "attention_dropout": config.number("attn_pdrop", 0.1),
            "positions": "learned",
            "scale_embeddings": False,
            "share_embeddings": shared_embeddings(config),
            "epsilon": config.number("layer_norm_epsilon", 1e-5),
        }

    def load_weights(self, model: Any, weights: WeightLoader) -> None:
        self.load_embeddings(model, weights, "wte.weight")
        decoder = model.decoder
        weights.assign(decoder.positions.embeddings, "wpe.weight")
        weights.norm(decoder.norm, "ln_f")
        for index, block in enumerate(decoder.blocks):
            name, attention = f"h.{index}", block.self_attention
            weights.norm(block.self_attention_residual.norm, f"{name}.ln_1")
            projections = (
                attention.query_projection,
                attention.key_projection,
                attention.value_projection,
            )
            for part, projection in enumerate(projections):
                begin = part * projection.units
                columns = slice(begin, begin + projection.units)
                _load_columns(weights, projection, f"{name}.attn.c_attn", columns)
            _load_columns(weights, attention.output_projection, f"{name}.attn.c_proj")
            weights.norm(block.feed_forward_residual.norm, f"{name}.ln_2")
            _load_columns(weights, block.feed_forward.inner, f"{name}.mlp.c_fc")
            _load_columns(weights, block.feed_forward.outer, f"{name}.mlp.c_proj")
            weights.skip(f"{name}.attn.bias", f"{name}.attn.masked_bias")  # the causal mask


def _load_columns(
    weights: WeightLoader, layer: Any, name: str, columns: slice = slice(None)
) -> None:
    """Assigns columns of a linear layer that is stored as `[in, out]`, unlike others."""

    def take(values: np.ndarray) -> np.ndarray:
        return values[..., columns]

    weights.assign(layer.kernel, f"{name}.weight", take)
    weights.assign(layer.bias, f"{name}.bias", take)
