"""Families of pretrained models: their registry, and models from checkpoints."""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.registry import Kind, import_members, register
from keras_transformer._utils.types import Path
from keras_transformer.hub.checkpoint import CONFIG, Checkpoint, StoredTensor
from keras_transformer.hub.reading import ConfigReader, WeightLoader
from keras_transformer.models.base import ConfiguredModel
from keras_transformer.text import SpecialIds

#: The registered families by the `model_type` of their configs.
FAMILIES: dict[str, type["Family"]] = {}


def register_family(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a `Family` for the `model_type` of a config."""
    return register(FAMILIES, name)


class Family(abc.ABC):
    """A family of checkpoints: converts its config to settings and its tensors to weights.

    A family is a file in `keras_transformer/hub/families/` that registers its `model_type`. It
    reads every key of the config that changes what the model computes; the others must be known to
    be harmless. Every tensor must be used, and every weight of our model must be set.

    Args:
        tensors: The `StoredTensor`s of the checkpoint by name.

    Example:

    ```python
    @register_family("morse")
    class MorseFamily(Family):
        def model_class(self, config):
            return LanguageModel

        def settings(self, config):
            return {"hidden_dim": config.integer("d_model"), …}

        def special_ids(self, config):
            return SpecialIds(padding=config.integer("pad_token_id"), …)

        def load_weights(self, model, weights):
            weights.assign(model.predictor.embedding.embeddings, "embed_tokens.weight")
            …
    ```
    """

    #: The `model_type` that the family is registered by.
    registered_name: ClassVar[str]
    #: Prefixes that names of tensors may have.
    prefixes: ClassVar[tuple[str, ...]] = ()
    #: Further keys of the config that never change what these models compute.
    harmless: ClassVar[tuple[str, ...]] = ()
    #: Roles of special ids that the tokenizer decides on, because configs may not have them.
    tokenizer_roles: ClassVar[tuple[str, ...]] = ()

    def __init__(self, tensors: Mapping[str, StoredTensor]) -> None:
        self.tensors: Mapping[str, StoredTensor] = tensors

    @abc.abstractmethod
    def model_class(self, config: ConfigReader) -> type[ConfiguredModel]:
        """Returns the class of our model for a config, such as `Transformer`."""

    @abc.abstractmethod
    def settings(self, config: ConfigReader) -> dict[str, Any]:
        """Returns the settings of our model, without its special ids."""

    @abc.abstractmethod
    def special_ids(self, config: ConfigReader) -> SpecialIds:
        """Returns the special ids; the unknown id is the family's default.

        Configs do not contain the unknown id. If the tokenizer has a different one, it is used.
        """

    def adapt(self, settings: dict[str, Any], ids: SpecialIds) -> dict[str, Any]:
        """Returns the settings for the special ids of the tokenizer; here they are unchanged."""
        return settings

    @abc.abstractmethod
    def load_weights(self, model: Any, weights: WeightLoader) -> None:
        """Assigns the tensors to the weights of the model."""


def find_family(checkpoint: Checkpoint) -> Family:
    """Returns the family of a checkpoint, by the `model_type` of its config."""
    import_families()
    name = checkpoint.config.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise UserError(
            f"the model type {name!r} is not supported; supported are {known}.",
            where=checkpoint.directory / CONFIG,
        )
    return FAMILIES[name](checkpoint.tensors)


def load_model(
    checkpoint: Checkpoint | Path,
    special_ids: SpecialIds | None = None,
    dtype: Any = None,
) -> ConfiguredModel:
    """Returns the model of a checkpoint, without its tokenizer.

    Args:
        checkpoint: A `Checkpoint`, or its directory.
        special_ids: The `SpecialIds` of the tokenizer. Default: those of the config.
        dtype: Dtype policy of the model. Default: Keras' global one.

    Example:

    ```python
    model = keras_transformer.hub.load_model("opus-mt-en-de")
    model.generate([[131, 25, 0]])
    ```
    """
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint.open(checkpoint)
    family = find_family(checkpoint)
    config = ConfigReader(checkpoint.config, checkpoint.directory)
    config.ignore(*family.harmless)
    try:
        kind, settings = family.model_class(config), family.settings(config)
        ids = special_ids_of(family, config, special_ids)
    except (TypeError, AttributeError, KeyError) as error:
        problem = f"has a value of the wrong type ({error})."
        raise UserError(problem, where=checkpoint.directory / CONFIG) from error
    config.finish(family.registered_name)
    _require_plausible(settings, checkpoint)
    model = _build(kind, family.adapt(settings, ids), ids, dtype, checkpoint)
    weights = WeightLoader(checkpoint, model, family.prefixes)
    family.load_weights(model, weights)
    weights.finish(family.registered_name)
    return model


def _require_plausible(settings: Mapping[str, Any], checkpoint: Checkpoint) -> None:
    """Raises a `UserError` if a config asks for more memory than its tensors can fill."""
    sizes = {name: value for name, value in settings.items() if type(value) is int}
    hidden_dim = sizes.get("hidden_dim", 1)
    heads_dim = sizes.get("num_heads", 1) * sizes.get("key_dim", 1)
    needed = {name: sizes.get(name, 1) * hidden_dim for name in _DIMENSIONS}
    needed |= {"hidden_dim": hidden_dim**2, "key_dim": heads_dim * hidden_dim}
    needed |= {name: value for name, value in sizes.items() if name.endswith("_layers")}
    if settings.get("positions") == "learned":
        needed["max_length"] = sizes.get("max_length", 1) * hidden_dim
    stored = sum(math.prod(tensor.shape) for tensor in checkpoint.tensors.values())
    for name, count in needed.items():
        if count > stored:
            raise UserError(
                f"gives the model {name}={sizes.get(name, 1):,}, but its tensors have only "
                f"{stored:,} numbers.",
                where=checkpoint.directory / CONFIG,
            )


#: Settings that are a dimension of a matrix, whose other one is the hidden dimension.
_DIMENSIONS = ("vocabulary_size", "target_vocabulary_size", "intermediate_dim")


def special_ids_of(
    family: Family, config: ConfigReader, of_tokenizer: SpecialIds | None
) -> SpecialIds:
    """Returns the special ids of a checkpoint, on which its config and tokenizer must agree."""
    ids = family.special_ids(config)
    if of_tokenizer is None:
        return ids
    for role in ("padding", "start", "end"):
        is_open = role in family.tokenizer_roles
        if not is_open and getattr(ids, role) != getattr(of_tokenizer, role):
            raise UserError(
                f"the {role} id is {getattr(ids, role)} in {CONFIG}, but "
                f"{getattr(of_tokenizer, role)} in the tokenizer.",
                where=config.where,
            )
    return of_tokenizer


def _build(
    kind: type[ConfiguredModel],
    settings: dict[str, Any],
    ids: SpecialIds,
    dtype: Any,
    checkpoint: Checkpoint,
) -> ConfiguredModel:
    of_ids = {f"{name}_id": number for name, number in dataclasses.asdict(ids).items()}
    try:
        return kind(**settings, **of_ids, dtype=dtype)
    except UserError as error:
        raise error.at(checkpoint.directory / CONFIG) from error


def import_families() -> None:
    """Imports all files of `keras_transformer.hub.families`, which register themselves."""
    from keras_transformer.hub import families

    import_members(families.__name__, families.__path__)


def set_attention(
    weights: WeightLoader,
    attention: Any,
    name: str,
    query: str = "q_proj",
    key: str = "k_proj",
    value: str = "v_proj",
    output: str = "out_proj",
) -> None:
    """Assigns the projections of a `MultiHeadAttention`; the last arguments are their names."""
    for layer, projection in (
        (attention.query_projection, query),
        (attention.key_projection, key),
        (attention.value_projection, value),
        (attention.output_projection, output),
    ):
        weights.dense(layer, f"{name}.{projection}")
