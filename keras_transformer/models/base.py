"""Base classes of the models."""

import importlib
import inspect
import os
import re
import textwrap
from typing import Any, ClassVar, NamedTuple, Self

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer, require_rank
from keras_transformer._utils.errors import UserError
from keras_transformer.layers import CoverageLoss, PointerGenerator, TokenEmbedding
from keras_transformer.layers.feed_forwards.feed_forward import serialize_activation
from keras_transformer.layers.kv_cache import is_compiled_by_xla
from keras_transformer.models.config import ModelConfig, Seq2SeqConfig
from keras_transformer.models.decoder import TokenPredictor, mean_cross_attention
from keras_transformer.models.encoder import EncoderOutput, SourceReader, Stack
from keras_transformer.text import SpecialIds

#: The classes of models by name; each subclass with a `config_class` registers itself.
MODELS: dict[str, type["ConfiguredModel"]] = {}


class ModelGraph(NamedTuple):
    """The connected layers of a model: symbolic inputs by name, symbolic output, and attributes."""

    inputs: dict[str, Any]
    outputs: Any
    attributes: dict[str, Any]


class ConfiguredModel(keras.Model):
    """Base of the models: a functional `keras.Model` that is built from a frozen config.

    A model is made with keyword arguments, the fields of its `config_class`, and is saved as its
    config and its weights, never as code. `keras.models.clone_model` gives a plain functional model
    with the same outputs; for a model of the same class use `from_config(model.get_config())`.

    A subclass sets `config_class`, whose fields replace `**settings` in its docstring, and
    implements `build_graph`.

    Args:
        dtype: Dtype policy of all layers, such as "mixed_bfloat16". Defaults to Keras' global one.
        name: String. Name of the model. Defaults to None.
        trainable: Boolean. Whether the weights are trained. Defaults to True.
        **settings: Fields of the `config_class`.
    """

    #: Class of the config.
    config_class: ClassVar[type[ModelConfig]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config_class" in vars(cls):
            MODELS[cls.__name__] = cls
            cls.__signature__: inspect.Signature = _signature_of(cls.config_class)
            cls.__doc__ = _list_arguments(cls, cls.__signature__)

    def __init__(
        self, *, dtype: Any = None, name: str | None = None, trainable: bool = True, **settings: Any
    ) -> None:
        config = self.config_class(**settings)
        policy = keras.dtype_policies.get(dtype) if dtype else keras.config.dtype_policy()
        graph = self.build_graph(config, policy)
        super().__init__(inputs=graph.inputs, outputs=graph.outputs, name=name, trainable=trainable)
        self.config: ModelConfig = config
        self.special_ids: SpecialIds = config.special_ids
        # `compile` looks here whether the loss must be scaled.
        self.dtype_policy: keras.DTypePolicy = policy
        for attribute, value in graph.attributes.items():
            setattr(self, attribute, value)

    @classmethod
    def build_graph(cls, config: Any, dtype: keras.DTypePolicy) -> ModelGraph:
        """Returns the layers of a config, connected, and which of them become attributes."""
        raise NotImplementedError

    @classmethod
    def from_settings(cls, config: ModelConfig, dtype: Any = None, name: str | None = None) -> Self:
        """Returns a new model of a config, an instance of the class's `config_class`."""
        if not isinstance(config, cls.config_class):
            raise UserError(
                f"{cls.__name__}.from_settings needs a {cls.config_class.__name__}; got "
                f"{config!r}.",
                fix=f"For a named size use {cls.__name__}.from_size(size, vocabulary_size=…).",
            )
        return cls(**vars(config), dtype=dtype, name=name)

    @classmethod
    def from_size(
        cls, size: str, dtype: Any = None, name: str | None = None, **settings: Any
    ) -> Self:
        """Returns a new model of a named size.

        Args:
            size: "tiny", "small", "base" or "big".
            dtype: Dtype policy of all layers. Defaults to Keras' global one.
            name: Name of the model. Defaults to None.
            **settings: Arguments of the model; `vocabulary_size` is required.
        """
        config = cls.config_class.from_size(size, **settings)
        return cls.from_settings(config, dtype=dtype, name=name)

    @classmethod
    def from_preset(cls, directory: str | os.PathLike[str]) -> Self:
        """Returns the model of a `directory` written by training or by `TrainedModel.save`."""
        # Packages later in the import order are imported inside functions only.
        trained_model = importlib.import_module("keras_transformer.export").TrainedModel
        model = trained_model.load(directory).model
        if not isinstance(model, cls):
            raise UserError(
                f"the trained model is a {type(model).__name__}, not a {cls.__name__}.",
                where=directory,
                fix=f"Use {type(model).__name__}.from_preset.",
            )
        return model

    def get_config(self) -> dict[str, Any]:
        settings = dict(vars(self.config))
        for name in {"activation", "head_activation"} & settings.keys():
            settings[name] = serialize_activation(settings[name])
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **settings,
            "frozen_layers": [
                path for path, layer in _layers_by_path(self).items() if not layer.trainable
            ],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        config = dict(config)
        frozen_layers = config.pop("frozen_layers", ())
        model = cls(**config)
        layers = _layers_by_path(model)
        for path in frozen_layers:
            layers[path].trainable = False
        return model


class GenerativeModel(ConfiguredModel):
    """Base of the models that decode token by token. Args: those of `ConfiguredModel`."""

    predictor: TokenPredictor

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.decoder: Any = self.predictor.decoder
        limits = self.config.length_limits(self.config.target_fields)
        #: How many tokens the decoder can read, or None if there is no limit.
        self.position_limit: int | None = min(limits.values(), default=None)

    def _make_state(
        self,
        batch_size: int | tf.Tensor,
        max_length: int | tf.Tensor | None,
        encoder_output: EncoderOutput | None = None,
    ) -> dict[str, Any]:
        """Returns the state before the first token; see `initial_state` of the subclasses."""
        if max_length is None:
            max_length = self.config.max_length
        if not tf.is_tensor(max_length):
            length = require_positive_integer("max_length", max_length)
            if self.decoder.positions is not None:
                self.decoder.positions.check_length(length, offset=0)
        can_grow = tf.is_tensor(max_length) and not is_compiled_by_xla()
        space = None if can_grow else max_length
        state = self.decoder.initial_state(batch_size, space, encoder_output)
        state["position"] = tf.constant(0, tf.int32)
        if self.predictor.pointer is not None and encoder_output is not None:
            state["source"] = encoder_output.ids
        if can_grow:  # for searches that take many steps without XLA
            state["kernels"] = {"output": self.predictor.output.output_kernel(batch_size)}
        return state

    def step(self, ids: Any, state: dict[str, Any], return_attention: bool = False) -> Any:
        """Returns the logits after the next tokens, and the state after them.

        A step that exceeds the space of the state is an error. XLA has no run-time errors: there
        the caller must keep to the `max_length` of the state.

        Args:
            ids: One token for each row, `[B]`; or several, `[B, T]`, such as a prompt.
            state: From `initial_state` or from the previous step.
            return_attention: Whether to return as well the attention to the source, `[B, S]` (or
                `[B, T, S]`), see `mean_cross_attention`. Defaults to False.

        Returns:
            Logits `[B, V]` (or `[B, T, V]`), the attention if requested, and the state.
        """
        ids = require_rank("ids", tf.convert_to_tensor(ids), {1: "B", 2: "B, T"})
        is_single = len(ids.shape) == 1
        if is_single:
            ids = ids[:, None]
        rows = tf.nest.flatten(state["layers"])[0].shape[0]
        if None not in (rows, ids.shape[0]) and rows != ids.shape[0]:
            raise UserError(
                f"`ids` must have a row for each of the state's {rows}; got {ids.shape[0]}."
            )
        ids = self.decoder.require_space(ids, state)
        logits, *scores, state = self.predictor(
            ids, state=state, training=False, return_attention_scores=return_attention
        )
        outputs = [logits, *(mean_cross_attention(each) for each in scores)]
        return (*(output[:, 0] if is_single else output for output in outputs), state)

    def generate(self, ids: Any, search: Any = "greedy", **search_settings: Any) -> tf.Tensor:
        """Returns the best sequence of token ids that a search finds for each row.

        The search runs eagerly; inside a `tf.function` it is faster.

        Args:
            ids: Source ids `[B, S]`, padded or a `RaggedTensor`, or a dictionary of all that
                `encode` takes, with the ids as "source". For a model without a source, the
                prompts.
            search: "greedy", "beam", "sampling" or another registered name; or a search object,
                such as `BeamSearch(beams=4)`. Defaults to "greedy".
            **search_settings: Settings of a search given by name, such as `beams=4`.

        Returns:
            int32 `[B, T]`: the tokens with the end token, prompts included, then padding.
        """
        get_search = importlib.import_module("keras_transformer.decoding").get_search
        role = "source" if hasattr(self, "encode") else "prefix"
        return get_search(search, **search_settings)(self, **{role: ids}).ids[:, 0]


class Seq2SeqModel(GenerativeModel):
    """Base of the models that read a source and write a target.

    A subclass sets the classes of its stacks, whose arguments are fields of the config. Inputs and
    outputs are those of `Transformer`.

    Args: those of `ConfiguredModel`.
    """

    encoder_class: ClassVar[type[Stack]]
    decoder_class: ClassVar[type[Stack]]
    reader: SourceReader
    encoder: Any
    #: Names of the arguments of `encode` other than the source.
    further_inputs: tuple[str, ...]

    @classmethod
    def build_graph(cls, config: Any, dtype: keras.DTypePolicy) -> ModelGraph:
        source, target, output = make_embeddings(config, dtype)
        reader = cls.make_reader(config, source, dtype)
        pointer = coverage = None
        if config.copies:
            pointer = PointerGenerator(name="pointer", dtype=dtype)
        if config.coverage_weight:
            coverage = CoverageLoss(config.coverage_weight, name="coverage", dtype=dtype)
        decoder = cls.make_decoder(config, dtype)
        predictor = TokenPredictor(target, decoder, output, config.special_ids, pointer, coverage)
        names = ("source", "target", *reader.further_inputs)
        inputs = {each: keras.Input((None,), dtype="int32", name=each) for each in names}
        source_inputs: dict[str, Any] = {k: v for k, v in inputs.items() if k != "target"}
        logits = predictor(inputs["target"], reader(**source_inputs), source=inputs["source"])
        attributes = {"further_inputs": reader.further_inputs, "encoder": reader.encoder}
        return ModelGraph(inputs, logits, {"predictor": predictor, "reader": reader, **attributes})

    @classmethod
    def make_reader(cls, config: Any, embedding: Any, dtype: keras.DTypePolicy) -> SourceReader:
        """Returns the encoder of a config, with the embedding of the source."""
        settings = {**config.arguments_of(cls.encoder_class), "dtype": dtype, "name": "encoder"}
        return SourceReader(embedding, cls.encoder_class(config.num_encoder_layers, **settings))

    @classmethod
    def make_decoder(cls, config: Any, dtype: keras.DTypePolicy) -> Stack:
        """Returns the decoder of a config."""
        settings = {**config.arguments_of(cls.decoder_class), "dtype": dtype, "name": "decoder"}
        return cls.decoder_class(config.num_decoder_layers, **settings)

    def encode(
        self, source: Any, source_words: Any = None, source_heads: Any = None
    ) -> EncoderOutput:
        """Returns the `EncoderOutput` of source tokens.

        Args:
            source: Token ids `[B, S]`.
            source_words: Word numbers `[B, S]`, see `TreePositions`, for a model that reads trees.
            source_heads: Heads of words `[B, W]`, see `TreePositions`, for a model that reads
                trees.
        """
        return self.reader.encode(source, source_words, source_heads)

    def initial_state(
        self, encoder_output: EncoderOutput, max_length: int | tf.Tensor | None = None
    ) -> dict[str, Any]:
        """Returns the state of the decoder before its first token.

        The state is a dictionary of tensors whose structure stays the same from step to step, as do
        its shapes except those of growing caches:

        - "position": the number of tokens so far, a scalar for all rows;
        - "layers": the caches of the decoder's layers, with a row for each hypothesis. A search may
          repeat and reorder the rows, the first axis of these tensors;
        - "memory": what the layers have computed from the source, always with B rows; "layers" may
          have N·B rows, of which those of one source are consecutive;
        - "source": the source ids, for a decoder that copies them, with B rows as well;
        - "kernels": weights in the layout that is fastest for many steps, shared by all rows.

        Args:
            encoder_output: The result of `encode`.
            max_length: Integer or scalar tensor. Maximum number of target tokens, start token
                included. An integer reserves space for them. With a scalar tensor, caches grow
                instead, which is faster; under XLA they have a fixed size nevertheless. Defaults to
                that of the config.
        """
        return self._make_state(tf.shape(encoder_output.states)[0], max_length, encoder_output)

    def alignment(
        self, source: Any, target: Any, source_words: Any = None, source_heads: Any = None
    ) -> tf.Tensor:
        """Returns the attention of each target token `[B, T]` to the source, `[B, T, S]`.

        The arguments other than `target` are those of `encode`.
        """
        outputs = self._encoder_outputs(source, source_words, source_heads)
        return mean_cross_attention(self._decoder_scores(target, outputs))

    def attention_weights(
        self, source: Any, target: Any, source_words: Any = None, source_heads: Any = None
    ) -> dict[str, tf.Tensor]:
        """Returns all attention weights of a forward pass: `{"cross": [B, N, H, T, S]}`.

        The arguments are those of `alignment`.
        """
        outputs = self._encoder_outputs(source, source_words, source_heads)
        scores = self._decoder_scores(target, outputs)
        return {"cross": tf.stack([layer["cross"] for layer in scores], axis=1)}

    def _encoder_outputs(self, source: Any, *further_inputs: Any, **kwargs: Any) -> Any:
        return self.reader(tf.convert_to_tensor(source), *further_inputs, training=False, **kwargs)

    def _decoder_scores(self, target: Any, encoder_outputs: Any) -> list[dict[str, tf.Tensor]]:
        """Returns the attention weights of each of the decoder's layers, by name."""
        _, scores = self.predictor(
            tf.convert_to_tensor(target),
            encoder_outputs,
            training=False,
            return_attention_scores=True,
            return_hidden_states=True,
        )
        return scores


def make_embedding(
    config: ModelConfig,
    dtype: Any,
    name: str = "embedding",
    vocabulary_size: int | None = None,
    output_bias: bool = False,
) -> TokenEmbedding:
    """Returns the `TokenEmbedding` of a config; `vocabulary_size` defaults to the config's."""
    return TokenEmbedding(
        config.vocabulary_size if vocabulary_size is None else vocabulary_size,
        config.hidden_dim,
        config.padding_id,
        scale=config.scale_embeddings,
        output_bias=output_bias,
        name=name,
        dtype=dtype,
    )


def make_embeddings(config: Seq2SeqConfig, dtype: Any) -> list[TokenEmbedding]:
    """Returns the embeddings of source, target and output; `share_embeddings` makes some equal."""
    sharing, size, bias = config.share_embeddings, config.target_vocabulary_size, config.output_bias
    if sharing == "all":
        shared = make_embedding(config, dtype, output_bias=bias)
        return [shared, shared, shared]
    if sharing == "inputs":
        shared = make_embedding(config, dtype)
        return [shared, shared, make_embedding(config, dtype, "output_embedding", None, bias)]
    source = make_embedding(config, dtype, "source_embedding")
    if sharing == "target":
        target = make_embedding(config, dtype, "target_embedding", size, bias)
        return [source, target, target]
    target = make_embedding(config, dtype, "target_embedding", size)
    return [source, target, make_embedding(config, dtype, "output_embedding", size, bias)]


def _layers_by_path(model: keras.Model) -> dict[str, keras.layers.Layer]:
    """Returns the layers that can be frozen separately: those of the model and of its stacks."""
    layers = {}
    for layer in model.layers:
        layers[layer.name] = layer
        for block in getattr(layer, "blocks", ()):
            layers[f"{layer.name}/{block.name}"] = block
    return layers


def _signature_of(config_class: type[ModelConfig]) -> inspect.Signature:
    """Returns the signature of a model, which takes the fields of its config as keywords."""
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (("dtype", Any), ("name", str | None))
    ]
    return inspect.Signature([*inspect.signature(config_class).parameters.values(), *extra])


def _list_arguments(model_class: type[ConfiguredModel], signature: inspect.Signature) -> str:
    """Returns the docstring of a model with all of its arguments in place of `**settings`."""
    texts: dict[str, str] = {}
    for kind in (ConfiguredModel, *reversed(model_class.config_class.__mro__)):
        _, _, arguments = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:\n")
        texts |= re.findall(r"^    (\w+): (.+?)(?=\n    \S|\n\S|\Z)", arguments, re.M | re.S)
    lines: list[str] = []
    for name, parameter in signature.parameters.items():
        text = f"{name}: {texts.get(name, '')}"
        if parameter.default is not parameter.empty and "Defaults to" not in text:
            text += f" Defaults to {parameter.default!r}.".replace("'", '"')
        lines += textwrap.wrap(text, 96, subsequent_indent="    ", break_on_hyphens=False)
    listed = textwrap.indent("\n".join(lines), "    ")
    docstring = inspect.cleandoc(model_class.__doc__ or "")
    return re.sub(r"^    \*\*settings: .*$", lambda _: listed, docstring, flags=re.M)
