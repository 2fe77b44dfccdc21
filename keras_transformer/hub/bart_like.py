"""Base of the families whose layers are named like BART's: Marian, mBART, Pegasus, M2M100."""

from typing import Any, ClassVar

import numpy as np

from keras_transformer.hub.family import Family, set_attention
from keras_transformer.hub.reading import ConfigReader, WeightLoader
from keras_transformer.models import Transformer
from keras_transformer.text import SpecialIds

#: Our activations by the names that configs have.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "swish": "silu",
    "silu": "silu",
    "tanh": "tanh",
}


class BartLikeFamily(Family):
    """Base of encoder-decoders that name their layers and config keys as BART does.

    The class attributes describe properties of the models that their configs do not contain.

    Args: those of `Family`.
    """

    #: Name of the position encoding, and its options.
    positions: ClassVar[str] = "learned"
    positions_options: ClassVar[dict[str, Any]] = {}
    #: Pre-norm, with a normalization of each stack's outputs.
    normalize_first: ClassVar[bool] = False
    #: Whether embeddings are normalized.
    normalize_embeddings: ClassVar[bool] = False
    #: Whether the logits have a bias.
    output_bias: ClassVar[bool] = True
    #: Defaults of keys.
    default_activation: ClassVar[str] = "gelu"
    default_scale: ClassVar[bool] = False
    #: Default unknown id.
    unknown_id: ClassVar[int] = 3
    #: Number of unused rows at the beginning of the table of learned positions.
    unused_positions: ClassVar[int] = 2
    #: Endings of the architectures that write text.
    architectures: ClassVar[tuple[str, ...]] = ("ForConditionalGeneration",)

    prefixes: ClassVar[tuple[str, ...]] = ("model.",)
    harmless: ClassVar[tuple[str, ...]] = (
        # The regularization of training, and settings of training that have become weights.
        *("encoder_layerdrop", "decoder_layerdrop", "extra_pos_embeddings"),
        *("force_bos_token_to_be_generated", "static_position_embeddings"),
    )

    def model_class(self, config: ConfigReader) -> type[Transformer]:
        for name in config.get("architectures") or ():
            if not str(name).endswith(self.architectures):
                raise config.refuse("architectures", f"names that end in {self.architectures[0]}")
        return Transformer

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        layers = config.integer("encoder_layers")
        heads, size = config.integer("encoder_attention_heads"), config.integer("encoder_ffn_dim")
        # One setting of ours for both stacks.
        config.expect("decoder_attention_heads", heads)
        config.expect("decoder_ffn_dim", size)
        config.expect("num_hidden_layers", layers)
        config.expect("normalize_before", self.normalize_first)
        config.expect("normalize_embedding", self.normalize_embeddings)
        config.expect("add_final_layer_norm", self.normalize_first)
        config.expect("add_bias_logits", False, self.output_bias)
        return {
            "vocabulary_size": config.integer("vocab_size"),
            "hidden_dim": config.integer("d_model"),
            "num_encoder_layers": layers,
            "num_decoder_layers": config.integer("decoder_layers"),
            "num_heads": heads,
            "intermediate_dim": size,
            "max_length": config.integer("max_position_embeddings"),
            "activation": config.choice(
                "activation_function", ACTIVATIONS, self.default_activation
            ),
            "scale_embeddings": config.boolean("scale_embedding", self.default_scale),
            "dropout": config.number("dropout", 0.1),
            "attention_dropout": config.number("attention_dropout", 0.0),
            "activation_dropout": config.number("activation_dropout", 0.0),
            "positions": self.positions,
            "positions_options": dict(self.positions_options),
            "normalize_first": self.normalize_first,
            "normalize_embeddings": self.normalize_embeddings,
            "output_bias": self.output_bias,
            "epsilon": 1e-5,
            **self.embedding_settings(config),
        }

    def embedding_settings(self, config: ConfigReader) -> dict[str, Any]:
        """Returns how the embeddings are shared, and the size of the target's."""
        if config.boolean("tie_word_embeddings", True):
            return {"share_embeddings": "all"}
        return {"share_embeddings": "inputs"}

    def special_ids(self, config: ConfigReader) -> SpecialIds:
        end = config.get("eos_token_id")
        return SpecialIds(
            padding=config.integer("pad_token_id"),
            unknown=self.unknown_id,
            start=config.integer("decoder_start_token_id", end if isinstance(end, int) else None),
            end=config.integer("eos_token_id"),
        )

    def load_weights(self, model: Any, weights: WeightLoader) -> None:
        self.load_embeddings(model, weights)
        for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            self.load_positions(stack, weights, f"{name}.embed_positions.weight")
            if stack.embedding_norm is not None:
                weights.norm(stack.embedding_norm, f"{name}.layernorm_embedding")
            if stack.norm is not None:
                weights.norm(stack.norm, f"{name}.layer_norm")
            for index, block in enumerate(stack.blocks):
                load_block(block, weights, f"{name}.layers.{index}")

    def load_embeddings(self, model: Any, weights: WeightLoader) -> None:
        """Assigns the embeddings and the output layer."""
        table, output = model.predictor.embedding, model.predictor.output
        shared = "shared.weight"
        if weights.find(shared) is None:  # safetensors keep one name of a tied tensor
            names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
            shared = next((name for name in names if weights.find(name)), shared)
        weights.assign(table.embeddings, shared)
        for side in ("encoder", "decoder"):
            weights.same(f"{side}.embed_tokens.weight", table.embeddings)
        if output is table:
            weights.same("lm_head.weight", table.embeddings)
        else:
            weights.assign(output.embeddings, "lm_head.weight")
        load_output_bias(output, weights)

    def load_positions(self, stack: Any, weights: WeightLoader, name: str) -> None:
        """Assigns learned positions; a stored table of sines and cosines must equal ours."""
        table = stack.positions
        if self.positions == "learned":
            first = self.unused_positions
            weights.assign(table.embeddings, name, lambda values: values[first:])
        elif weights.find(name) is not None:
            count, size = weights.shape(name)
            # It may be in half precision.
            weights.same(name, table.encode(np.arange(count), size), tolerance=1e-2)


def load_output_bias(output: Any, weights: WeightLoader) -> None:
    """Assigns the bias of the logits, which is zeros if it is not stored."""
    if output.bias is not None:
        if weights.find("final_logits_bias") is None:
            weights.set(output.bias, np.zeros(output.bias.shape, np.float32))
        else:
            weights.assign(output.bias, "final_logits_bias", lambda values: values[0])


def load_block(block: Any, weights: WeightLoader, name: str) -> None:
    """Assigns the weights of a block of an encoder or a decoder."""
    set_attention(weights, block.self_attention, f"{name}.self_attn")
    weights.norm(block.self_attention_residual.norm, f"{name}.self_attn_layer_norm")
    if getattr(block, "cross_attention", None) is not None:
        set_attention(weights, block.cross_attention, f"{name}.encoder_attn")
        weights.norm(block.cross_attention_residual.norm, f"{name}.encoder_attn_layer_norm")
    weights.dense(block.feed_forward.inner, f"{name}.fc1")
    weights.dense(block.feed_forward.outer, f"{name}.fc2")
    weights.norm(block.feed_forward_residual.norm, f"{name}.final_layer_norm")
