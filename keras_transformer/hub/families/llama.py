"""Llama 1 to 3, and the families with its layers: Mistral, Qwen2, Qwen3 and Gemma 1."""

from typing import Any, ClassVar

from keras_transformer.hub.causal import CausalFamily, shared_embeddings
from keras_transformer.hub.family import register_family, set_attention
from keras_transformer.hub.reading import ConfigReader, WeightLoader
from keras_transformer.hub.rope import rotary_options

_GATED = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_new": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh",
    "relu": "reglu",
}


@register_family("llama")
class LlamaFamily(CausalFamily):
    """Llama models, of versions 1 to 3, and others that are stored as such.

    Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models"; Llama team 2024,
    "The Llama 3 Herd of Models".
    """

    #: Values of keys that the config may leave out.
    default_tied: ClassVar[bool] = False
    default_attention_bias: ClassVar[bool] = False
    #: Offset that RMS normalizations add to the stored scale.
    norm_offset: ClassVar[float] = 0.0

    prefixes: ClassVar[tuple[str, ...]] = ("model.",)

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        hidden_dim = config.integer("hidden_size")
        heads = config.integer("num_attention_heads")
        key_dim = config.get("head_dim") or hidden_dim // heads
        config.expect("pretraining_tp", 1)
        options = rotary_options(config, key_dim)
        if (window := self.window(config)) is not None:
            options["window"] = window - 1  # a query counts itself
        return {
            "vocabulary_size": config.integer("vocab_size"),
            "hidden_dim": hidden_dim,
            "num_layers": config.integer("num_hidden_layers"),
            "num_heads": heads,
            "num_key_value_heads": config.get("num_key_value_heads") or heads,
            "key_dim": key_dim,
            "intermediate_dim": config.integer("intermediate_size"),
            "max_length": config.integer("max_position_embeddings", 2048),
            "attention": "rotary",
            "attention_options": options,
            "positions": "none",
            "activation": self.activation(config),
            "attention_dropout": config.number("attention_dropout", 0.0),
            "dropout": 0.0,
            "normalization": "rms",
            "normalize_first": True,
            "scale_embeddings": False,
            "share_embeddings": shared_embeddings(config, self.default_tied),
            "epsilon": config.number("rms_norm_eps", 1e-6),
            **self.bias_settings(config),
        }

    def activation(self, config: ConfigReader) -> str:
        """Returns the gated activation of the feed-forward networks."""
        return config.choice("hidden_act", _GATED, "silu")

    def bias_settings(self, config: ConfigReader) -> dict[str, Any]:
        """Returns which projections have biases."""
        return {
            "use_bias": config.boolean("mlp_bias", False),
            "attention_bias": config.boolean("attention_bias", self.default_attention_bias),
        }

    def window(self, config: ConfigReader) -> int | None:
        """Returns the number of positions that a query sees, itself included, or None."""
        return None

    def load_weights(self, model: Any, weights: WeightLoader) -> None:
        self.load_embeddings(model, weights, "embed_tokens.weight")
        weights.norm(model.decoder.norm, "norm", self.norm_offset)
        for index, block in enumerate(model.decoder.blocks):
            name, offset = f"layers.{index}", self.norm_offset
            attention, network = block.self_attention, block.feed_forward
            weights.norm(block.self_attention_residual.norm, f"{name}.input_layernorm", offset)
            set_attention(weights, attention, f"{name}.self_attn", output="o_proj")
            if attention.query_norm is not None:
                weights.norm(attention.query_norm, f"{name}.self_attn.q_norm")
                weights.norm(attention.key_norm, f"{name}.self_attn.k_norm")
            last = f"{name}.post_attention_layernorm"
            weights.norm(block.feed_forward_residual.norm, last, offset)
            weights.dense(network.inner, f"{name}.mlp.gate_proj")
            weights.dense(network.linear, f"{name}.mlp.up_proj")
            weights.dense(network.outer, f"{name}.mlp.down_proj")
            weights.skip(f"{name}.self_attn.rotary_emb.inv_freq")  # follows from the config


@register_family("mistral")
class MistralFamily(LlamaFamily):
    """Mistral models: Jiang et al. 2023, "Mistral 7B"."""

    def window(self, config: ConfigReader) -> int | None:
        if config.get("sliding_window") is None:
            return None
        return config.integer("sliding_window")


@register_family("qwen2")
class Qwen2Family(LlamaFamily):
    """Qwen2 and Qwen2.5 models: Yang et al. 2024, "Qwen2 Technical Report"."""

    def bias_settings(self, config: ConfigReader) -> dict[str, Any]:
        return {"use_bias": False, "attention_bias": True, "attention_output_bias": False}

    def window(self, config: ConfigReader) -> int | None:
        layers = config.integer("num_hidden_layers")
        first = config.integer("max_window_layers", layers)
        window = config.get("sliding_window")
        full = first if config.boolean("use_sliding_window", False) and window else layers
        counts = {"full_attention": min(full, layers), "sliding_attention": max(layers - full, 0)}
        kinds = set(config.get("layer_types") or (kind for kind in counts if counts[kind]))
        if kinds == {"full_attention"}:
            return None
        if kinds != {"sliding_attention"} or not window:
            key = "layer_types" if config.get("layer_types") else "max_window_layers"
            raise config.refuse(key, "the same for all layers")
        return config.integer("sliding_window")


@register_family("qwen3")
class Qwen3Family(Qwen2Family):
    """Qwen3 models without experts: Yang et al. 2025, "Qwen3 Technical Report"."""

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        return {**super().settings(config), "query_key_normalization": "rms"}

    def bias_settings(self, config: ConfigReader) -> dict[str, Any]:
        return {"use_bias": False, "attention_bias": config.boolean("attention_bias", False)}


@register_family("gemma")
class GemmaFamily(LlamaFamily):
    """Gemma models, of version 1.

    Gemma team 2024, "Gemma: Open Models Based on Gemini Research and Technology".
    """

    default_tied = True
    norm_offset: ClassVar[float] = 1.0

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        config.expect("use_bidirectional_attention", None, False)
        return {**super().settings(config), "scale_embeddings": True}

    def activation(self, config: ConfigReader) -> str:
        # The first releases say "gelu" and mean the approximation.
        for key in ("hidden_act", "hidden_activation"):
            config.expect(key, None, "gelu", "gelu_pytorch_tanh")
        return "geglu_tanh"
