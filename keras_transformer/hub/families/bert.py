"""BERT (also MiniLM), RoBERTa and DistilBERT: vectors of texts, and classes."""

import pathlib
import re
from typing import Any, ClassVar

from keras_transformer._utils.errors import UserError
from keras_transformer.export.strict_json import parse_json
from keras_transformer.hub.bart_like import ACTIVATIONS
from keras_transformer.hub.checkpoint import has_file, read_bytes, read_json
from keras_transformer.hub.family import Family, register_family, set_attention
from keras_transformer.hub.reading import ConfigReader, WeightLoader
from keras_transformer.models import TextEncoder
from keras_transformer.text import SpecialIds

# Files of Sentence Transformers: the steps from a text to a vector, and the kinds of pooling.
_MODULES = "modules.json"
_POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_max_tokens": "max",
}


@register_family("bert")
class BertFamily(Family):
    """BERT models, such as MiniLM, for vectors or with a classification head.

    Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers"; Reimers & Gurevych
    2019, "Sentence-BERT", for vectors. The vector of a text is the mean of its tokens, unless files
    of Sentence Transformers, `modules.json` and `1_Pooling/config.json`, say otherwise. The heads
    of pretraining are not used.

    Args: those of `Family`.
    """

    #: Beginning of the names of architectures.
    architecture: ClassVar[str] = "Bert"
    #: Activation of the layer before the classes.
    head_activation: ClassVar[str] = "tanh"
    #: Names of the layer before the classes, and of the layer of classes.
    head: ClassVar[tuple[str, str]] = ("pooler.dense", "classifier")
    #: Usual ids of the special tokens that configs do not have.
    usual_ids: ClassVar[SpecialIds] = SpecialIds(padding=0, unknown=100, start=101, end=102)
    #: Number of unused rows at the beginning of the table of positions.
    unused_positions: ClassVar[int] = 0

    prefixes: ClassVar[tuple[str, ...]] = ("bert.",)
    tokenizer_roles: ClassVar[tuple[str, ...]] = ("start", "end")

    def model_class(self, config: ConfigReader) -> type[TextEncoder]:
        endings = ("Model", "ForSequenceClassification", "ForMaskedLM", "ForPreTraining")
        for name in config.get("architectures") or ():
            if name not in {self.architecture + ending for ending in endings}:
                raise config.refuse("architectures", f"{self.architecture} with {endings[1]}")
        return TextEncoder

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        return {**self.sizes(config), **self.outputs(config), **_FORM}

    def sizes(self, config: ConfigReader) -> dict[str, Any]:
        """Returns the settings that configs of a family name in their own way."""
        config.expect("position_embedding_type", "absolute")
        config.expect("embedding_size", hidden_dim := config.integer("hidden_size"))
        return {
            "vocabulary_size": config.integer("vocab_size"),
            "hidden_dim": hidden_dim,
            "num_layers": config.integer("num_hidden_layers"),
            "num_heads": config.integer("num_attention_heads"),
            "intermediate_dim": config.integer("intermediate_size"),
            "max_length": config.integer("max_position_embeddings") - self.unused_positions,
            "num_token_types": config.integer("type_vocab_size", 2),
            "activation": config.choice("hidden_act", ACTIVATIONS, "gelu"),
            "dropout": config.number("hidden_dropout_prob", 0.1),
            "attention_dropout": config.number("attention_probs_dropout_prob", 0.1),
            "epsilon": config.number("layer_norm_eps", 1e-12),
        }

    def outputs(self, config: ConfigReader) -> dict[str, Any]:
        """Returns the settings of pooling and classes."""
        config.ignore("tie_word_embeddings", "is_decoder")
        if (classes := self.tensors.get(f"{self.head[1]}.weight")) is None:
            return _pooling_of(pathlib.Path(config.where))
        return {
            "pooling": "first",
            "num_classes": classes.shape[0],
            "head_activation": self.head_activation,
        }

    def special_ids(self, config: ConfigReader) -> SpecialIds:
        usual, ids = self.usual_ids, {}
        for role, key in (("padding", "pad"), ("start", "bos"), ("end", "eos")):
            given = config.get(f"{key}_token_id")
            ids[role] = getattr(usual, role) if given is None else given
        return SpecialIds(**ids, unknown=usual.unknown)

    def load_weights(self, model: Any, weights: WeightLoader) -> None:
        encoder, reader = model.encoder, model.reader
        weights.assign(reader.embedding.embeddings, "embeddings.word_embeddings.weight")
        first = self.unused_positions
        weights.assign(
            encoder.positions.embeddings,
            "embeddings.position_embeddings.weight",
            lambda values: values[first:],
        )
        if reader.token_types is not None:
            types = reader.token_types.embeddings
            weights.assign(types, "embeddings.token_type_embeddings.weight")
        weights.norm(encoder.embedding_norm, "embeddings.LayerNorm")
        for index, block in enumerate(encoder.blocks):
            self.load_block(block, weights, index)
        if model.config.num_classes is not None:
            for layer, name in zip(("pooler", "head"), self.head, strict=True):
                weights.dense(model.get_layer(layer), name)
        weights.skip("embeddings.position_ids")
        heads = ("cls.", "lm_head.", "vocab_", "pooler.", *(f"{p}pooler." for p in self.prefixes))
        weights.skip_matching(lambda name: name.startswith(heads))

    def load_block(self, block: Any, weights: WeightLoader, index: int) -> None:
        """Assigns the weights of a block."""
        name = f"encoder.layer.{index}"
        names = {"query": "self.query", "key": "self.key", "value": "self.value"}
        attention = f"{name}.attention"
        set_attention(weights, block.self_attention, attention, **names, output="output.dense")
        weights.norm(block.self_attention_residual.norm, f"{attention}.output.LayerNorm")
        weights.dense(block.feed_forward.inner, f"{name}.intermediate.dense")
        weights.dense(block.feed_forward.outer, f"{name}.output.dense")
        weights.norm(block.feed_forward_residual.norm, f"{name}.output.LayerNorm")


@register_family("roberta")
class RobertaFamily(BertFamily):
    """RoBERTa models, with the vectors and heads of `BertFamily`.

    Liu et al. 2019, "RoBERTa: A Robustly Optimized BERT Pretraining Approach".

    Args: those of `Family`.
    """

    architecture = "Roberta"
    head: ClassVar[tuple[str, str]] = ("classifier.dense", "classifier.out_proj")
    usual_ids: ClassVar[SpecialIds] = SpecialIds(padding=1, unknown=3, start=0, end=2)
    unused_positions = 2
    prefixes: ClassVar[tuple[str, ...]] = ("roberta.",)


@register_family("distilbert")
class DistilBertFamily(BertFamily):
    """DistilBERT models, with the vectors and heads of `BertFamily`.

    Sanh et al. 2019, "DistilBERT, a distilled version of BERT".

    Args: those of `Family`.
    """

    architecture = "DistilBert"
    head_activation = "relu"
    head: ClassVar[tuple[str, str]] = ("pre_classifier", "classifier")
    prefixes: ClassVar[tuple[str, ...]] = ("distilbert.",)
    harmless: ClassVar[tuple[str, ...]] = (
        "qa_dropout",
        "seq_classif_dropout",
        "sinusoidal_pos_embds",
        "tie_weights_",
    )

    def sizes(self, config: ConfigReader) -> dict[str, Any]:
        return {
            "vocabulary_size": config.integer("vocab_size"),
            "hidden_dim": config.integer("dim"),
            "num_layers": config.integer("n_layers"),
            "num_heads": config.integer("n_heads"),
            "intermediate_dim": config.integer("hidden_dim"),
            "max_length": config.integer("max_position_embeddings"),
            "activation": config.choice("activation", ACTIVATIONS, "gelu"),
            "dropout": config.number("dropout", 0.1),
            "attention_dropout": config.number("attention_dropout", 0.1),
            "epsilon": 1e-12,
        }

    def load_block(self, block: Any, weights: WeightLoader, index: int) -> None:
        name = f"transformer.layer.{index}"
        names = {"query": "q_lin", "key": "k_lin", "value": "v_lin", "output": "out_lin"}
        set_attention(weights, block.self_attention, f"{name}.attention", **names)
        weights.norm(block.self_attention_residual.norm, f"{name}.sa_layer_norm")
        weights.dense(block.feed_forward.inner, f"{name}.ffn.lin1")
        weights.dense(block.feed_forward.outer, f"{name}.ffn.lin2")
        weights.norm(block.feed_forward_residual.norm, f"{name}.output_layer_norm")


# What all of these models have in common.
_FORM: dict[str, Any] = {
    "positions": "learned",
    "normalize_first": False,
    "normalize_embeddings": True,
    "scale_embeddings": False,
}


def _pooling_of(directory: pathlib.Path) -> dict[str, Any]:
    """Returns the pooling that the files of Sentence Transformers describe, by default the mean."""
    if not has_file(directory, _MODULES):
        return {"pooling": "mean"}
    where = directory / _MODULES
    try:
        modules = parse_json(read_bytes(directory, _MODULES))
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        folder = str(modules[1]["path"])
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise UserError("is not a list of modules.", where=where) from error
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        expected = "Transformer, Pooling and perhaps Normalize"
        raise UserError(f"the modules must be {expected}; got {', '.join(kinds)}.", where=where)
    path = directory / folder
    if not re.fullmatch(r"\w+", folder, re.ASCII) or path.is_symlink():
        raise UserError(f"{folder!r} is not a module folder.", where=where)
    pooling = read_json(path, "config.json")
    chosen = [key for key, value in pooling.items() if key.startswith("pooling_") and value is True]
    if len(chosen) != 1 or chosen[0] not in _POOLING:
        known = ", ".join(_POOLING)
        raise UserError(f"must choose one of {known}; got {chosen}.", where=path / "config.json")
    return {"pooling": _POOLING[chosen[0]], "normalize_vectors": "Normalize" in kinds}
