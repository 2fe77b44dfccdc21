"""The export format CTranslate2: fast inference of Transformers without TensorFlow."""

import dataclasses
import importlib
import pathlib
from typing import Any, ClassVar

import numpy as np

from keras_transformer.decoding.constraints import ForbiddenTokens, NoRepeatNgram
from keras_transformer.export.formats.base import register_export_format
from keras_transformer.export.formats.runtime import RuntimeFormat
from keras_transformer.layers.feed_forwards.feed_forward import GATES
from keras_transformer.models import LanguageModel, Transformer

# Names of activations in CTranslate2, by those of Keras. A gate has the activation of its name.
_ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "quick_gelu": "GELUSigmoid",
    "swish": "SWISH",
    "silu": "SWISH",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
}
_MECHANISMS = ("scaled_dot_product", "rotary", "shaw", "alibi")
# Fields of a config that are read here, or have no effect after training.
_FIELDS = frozenset(
    {
        *("vocabulary_size", "target_vocabulary_size", "hidden_dim", "max_length", "num_layers"),
        *("num_encoder_layers", "num_decoder_layers", "num_heads", "num_key_value_heads"),
        *("intermediate_dim", "activation", "normalization", "normalize_first", "epsilon"),
        *("use_bias", "positions", "share_embeddings", "attention", "attention_options"),
        *("encoder_attention", "encoder_attention_options", "decoder_attention"),
        *("decoder_attention_options", "cross_attention", "cross_attention_options"),
        *("padding_id", "unknown_id", "start_id", "end_id", "scale_embeddings", "output_bias"),
        *("key_dim", "query_key_normalization", "positions_options", "normalize_embeddings"),
        *("final_normalization", "attention_bias", "attention_output_bias"),
        # Only for training.
        *("dropout", "attention_dropout", "activation_dropout", "coverage_weight", "is_packed"),
    }
)


@register_export_format("ctranslate2")
class CTranslate2Format(RuntimeFormat):
    """A model for CTranslate2 with its vocabularies, tokenizers and a program that runs it.

    The weights are copied into the layers of a CTranslate2 spec. Greedy search must give the same
    answers as the model in memory. Beam search scores hypotheses as this package does, but
    CTranslate2 explores other ones.

    Args:
        trained: a `TrainedModel` of a `Transformer` or a `LanguageModel`.
        search: a deterministic `Search` or `SearchSettings`. Default: the search of the recipe.
        limits: a `TextLimits`. Default: what the model is made for.
        weights: dtype of the stored weights, "float32", "float16" or "int8". On a CPU, CTranslate2
            converts float16 to float32 for computation. Default "float32".
    """

    runtime: ClassVar[str] = "CTranslate2"
    packages: ClassVar[tuple[str, ...]] = ("ctranslate2", "sentencepiece")
    modules: ClassVar[tuple[str, ...]] = ("ctranslate2", "sentencepiece")

    def check(self) -> None:
        if not isinstance(self.model, Transformer | LanguageModel):
            raise self.cannot(f"a {type(self.model).__name__}")
        self._check_fields()
        self._check_attention()
        self._check_search()

    def _check_fields(self) -> None:
        config = self.model.config
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            if field.name not in _FIELDS and value != _default_of(field):
                raise self.cannot(f"{field.name}={value!r}")
        if config.query_key_normalization == "layer":
            raise self.cannot("query_key_normalization='layer'")
        if config.final_normalization and not config.normalize_first:
            raise self.cannot("final_normalization=True with normalize_first=False")
        if isinstance(config.activation, str) and config.activation in GATES:
            activation = GATES[config.activation]
        else:
            activation = config.activation
        name = activation if isinstance(activation, str) else getattr(activation, "__name__", "")
        if name not in _ACTIVATIONS:
            raise self.cannot(f"activation={config.activation!r}")
        self.activation: str = _ACTIVATIONS[name]

    def _check_attention(self) -> None:
        config = self.model.config
        fields = (config.encoder_field, config.decoder_field)
        for field in fields if isinstance(self.model, Transformer) else fields[1:]:
            name = getattr(config, field)
            if name not in _MECHANISMS or (name == "alibi" and field != fields[1]):
                raise self.cannot(f"{field}={name!r}")
            mechanism, positions = config.mechanism(field), config.position_scheme_beside(field)
            for option in ("scaling", "window"):
                value = getattr(mechanism, option, None)
                if value is not None:
                    raise self.cannot(f"{field}={name!r} with {option}={value!r}")
            if mechanism.encodes_positions and positions is not None:
                raise self.cannot(f"positions={positions!r} with {field}={name!r}")
        if isinstance(self.model, Transformer):
            if config.cross_attention != "scaled_dot_product":
                raise self.cannot(f"cross_attention={config.cross_attention!r}")
            if config.encoder_field == "attention" == config.decoder_field and (
                config.attention == "alibi"
            ):
                raise self.cannot("attention='alibi' in an encoder")

    def _check_search(self) -> None:
        for constraint in self.search.constraints:
            if not isinstance(constraint, NoRepeatNgram | ForbiddenTokens):
                raise self.cannot(f"the constraint {constraint!r}", "Leave it out.")
        penalty = getattr(self.search, "coverage_penalty", 0.0)
        if penalty:
            raise self.cannot(f"coverage_penalty={penalty!r}", "Leave it out.")

    def convert(self, directory: pathlib.Path, weights: str) -> None:
        spec = self.spec()
        spec.validate()
        spec.optimize(quantization=weights)
        spec.save(str(directory))

    def spec(self) -> Any:
        """Returns the CTranslate2 spec with the weights of the model."""
        specs: Any = importlib.import_module("ctranslate2.specs.transformer_spec")

        config = self.model.config
        decoder = specs.TransformerDecoderSpec(
            len(self.model.decoder.blocks),
            config.num_heads,
            with_encoder_attention=isinstance(self.model, Transformer),
            alibi=getattr(config, config.decoder_field) == "alibi",
            **self._stack_settings(config.decoder_field),
        )
        predictor = self.model.predictor
        self._set_embedding(decoder, decoder.embeddings, predictor.embedding)
        self._set_stack(decoder, self.model.decoder)
        decoder.projection.weight = _array(predictor.output.embeddings)
        if predictor.output.bias is not None:
            decoder.projection.bias = _array(predictor.output.bias)
        if isinstance(self.model, Transformer):
            encoder = specs.TransformerEncoderSpec(
                len(self.model.encoder.blocks),
                config.num_heads,
                **self._stack_settings(config.encoder_field),
            )
            self._set_embedding(encoder, encoder.embeddings[0], self.model.reader.embedding)
            self._set_stack(encoder, self.model.encoder)
            spec = specs.TransformerSpec(encoder, decoder)
            spec.register_source_vocabulary(self._vocabulary("source"))
            spec.register_target_vocabulary(self._vocabulary("target"))
        else:
            spec = specs.TransformerDecoderModelSpec(decoder)
            spec.register_vocabulary(self._vocabulary("target"))
        tokens, special = self._vocabulary("target"), self.module.special_ids
        spec.config.unk_token = tokens[special.unknown]
        spec.config.bos_token = tokens[special.start]
        spec.config.eos_token = tokens[special.end]
        spec.config.layer_norm_epsilon = config.epsilon
        if isinstance(self.model, Transformer):
            spec.config.decoder_start_token = tokens[special.start]
        return spec

    def _stack_settings(self, field: str) -> dict[str, Any]:
        activations: Any = importlib.import_module("ctranslate2.specs.common_spec").Activation
        config = self.model.config
        name, mechanism = getattr(config, field), config.mechanism(field)
        settings: dict[str, Any] = {
            "pre_norm": config.normalize_first,
            "activation": activations[self.activation],
            "ffn_glu": isinstance(config.activation, str) and config.activation in GATES,
            "rms_norm": config.normalization == "rms",
            "relative_position": name == "shaw",
            "layernorm_embedding": config.normalize_embeddings,
            "no_final_norm": config.final_normalization is False,
            "qk_norm": config.query_key_normalization == "rms",
        }
        if config.key_dim is not None:
            settings["head_dim"] = config.key_dim
        if config.num_key_value_heads not in (None, config.num_heads):
            settings["num_heads_kv"] = config.num_key_value_heads
        if name == "rotary":
            settings |= {
                "rotary_dim": mechanism.rotary_dim or 0,  # 0 for all dimensions
                "rotary_interleave": mechanism.interleaved,
                "rotary_base": mechanism.max_wavelength,
            }
        return settings

    def _set_embedding(self, stack: Any, spec: Any, embedding: Any) -> None:
        spec.weight = _array(embedding.embeddings)
        stack.scale_embeddings = bool(embedding.scale)

    def _set_stack(self, spec: Any, stack: Any) -> None:
        if hasattr(spec, "position_encodings"):
            spec.position_encodings.encodings = self._position_table(stack)
        if stack.embedding_norm is not None:
            _set_norm(spec.layernorm_embedding, stack.embedding_norm)
        if stack.norm is not None:
            _set_norm(spec.layer_norm, stack.norm)
        for layer, block in zip(spec.layer, stack.blocks, strict=True):
            _set_self_attention(layer.self_attention, block.self_attention)
            _set_norm(layer.self_attention.layer_norm, block.self_attention_residual.norm)
            if hasattr(layer, "attention"):
                _set_cross_attention(layer.attention, block.cross_attention)
                _set_norm(layer.attention.layer_norm, block.cross_attention_residual.norm)
            _set_linear(layer.ffn.linear_0, block.feed_forward.inner)
            _set_linear(layer.ffn.linear_1, block.feed_forward.outer)
            if block.feed_forward.linear is not None:
                _set_linear(layer.ffn.linear_0_noact, block.feed_forward.linear)
            _set_norm(layer.ffn.layer_norm, block.feed_forward_residual.norm)

    def _position_table(self, stack: Any) -> np.ndarray:
        """Returns what is added to embeddings, one row for each position `[P, M]`.

        Without a table CTranslate2 would add sinusoids of its own.
        """
        config = self.model.config
        hypothesis = self.search.lengths.maximum + self.module.limits.tokens
        length = max(config.max_length, hypothesis) + 1
        encoding = stack.positions
        if encoding is None:
            return np.zeros([length, config.hidden_dim], np.float32)
        if encoding.has_max_length:
            length = encoding.max_length
        return np.asarray(encoding.encode(np.arange(length), config.hidden_dim), np.float32)

    def _vocabulary(self, side: str) -> list[str]:
        """Returns a distinct token for each id."""
        tokens, known = [], set()
        for token in self.tokenizers[side].vocabulary():
            while token in known:
                token += ">"
            known.add(token)
            tokens.append(token)
        return tokens


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _array(weight: Any) -> np.ndarray:
    return np.asarray(weight, np.float32)


def _set_norm(spec: Any, norm: Any) -> None:
    if hasattr(spec, "beta"):
        spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)
    else:
        spec.gamma = _array(norm.scale)


def _set_linear(spec: Any, *layers: Any) -> None:
    """Sets a linear layer to dense layers side by side; CTranslate2 stores `[outputs, inputs]`."""
    spec.weight = np.concatenate([_array(each.kernel).T for each in layers])
    if layers[0].bias is not None:
        spec.bias = np.concatenate([_array(each.bias) for each in layers])


def _set_self_attention(spec: Any, attention: Any) -> None:
    projections = attention.query_projection, attention.key_projection, attention.value_projection
    _set_linear(spec.linear[0], *projections)
    _set_linear(spec.linear[1], attention.output_projection)
    _set_query_key_norms(spec, attention)
    if hasattr(spec, "relative_position_keys"):
        spec.relative_position_keys = _array(attention.mechanism.key_distances)
        spec.relative_position_values = _array(attention.mechanism.value_distances)


def _set_cross_attention(spec: Any, attention: Any) -> None:
    _set_linear(spec.linear[0], attention.query_projection)
    _set_linear(spec.linear[1], attention.key_projection, attention.value_projection)
    _set_linear(spec.linear[2], attention.output_projection)
    _set_query_key_norms(spec, attention)


def _set_query_key_norms(spec: Any, attention: Any) -> None:
    if attention.query_norm is not None:
        _set_norm(spec.q_norm, attention.query_norm)
        _set_norm(spec.k_norm, attention.key_norm)
