"""The recipe's `model`: a preset, and any setting of the model's config."""

import dataclasses

from keras_transformer.checks import require_choice, require_mapping
from keras_transformer.trainer.recipe.recipe_error import RecipeError
from keras_transformer.trainer.recipe.section import plain, with_dotted_names

#: Fields of the configs that follow from the rest of the recipe.
DERIVED = frozenset({"vocabulary_size", "target_vocabulary_size", "padding_id", "is_packed"})


def config_class(task):
    """The class of the config of a task's models."""
    from keras_transformer.models import LanguageModelConfig, TransformerConfig

    return {"translation": TransformerConfig, "language_model": LanguageModelConfig}[task]


def model_keys(task):
    """The keys that a recipe's `model` may have."""
    return ("preset", *_fields(task))


def _fields(task):
    names = (field.name for field in dataclasses.fields(config_class(task)))
    return tuple(name for name in names if name not in DERIVED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSection:
    """The model's settings, every one of them.

    A recipe gives a `preset` ("tiny", "small", "base" or "big"; without one, the defaults of the
    config) and any field of `TransformerConfig` or `LanguageModelConfig`. What is kept is what they
    come to, without the preset's name: what stands there is what is built.

    Attributes:
        settings: a mapping from fields of the config; the sizes of vocabularies, the id of padding
            and whether rows are packed are not among them.
    """

    settings: dict

    @classmethod
    def resolve(cls, values, task, text):
        """Makes the section from what a recipe says.

        Args:
            values: the recipe's keys and values, all of them known.
            task: "translation" or "language_model".
            text: the `TextSection`, or None if that could not be made.
        """
        values = dict(values)
        config_kind = config_class(task)
        size = text.vocabulary_size if text is not None else 1
        if text is not None and not text.shared and task == "translation":
            # Two vocabularies cannot share a table, so the default cannot be that they do.
            values.setdefault("share_embeddings", "target")
        try:
            for name in values:
                if name.endswith("_options"):
                    require_mapping(name, values[name])
            if (preset := values.pop("preset", None)) is not None:
                config = config_kind.preset(preset, vocabulary_size=size, **values)
            else:
                config = config_kind(vocabulary_size=size, **values)
            _require_usable(config)
        except (TypeError, ValueError) as error:
            names = {name: f"model.{name}" for name in model_keys(task)}
            raise RecipeError([with_dotted_names(str(error), names, "model")]) from error
        return cls(settings={name: plain(getattr(config, name)) for name in _fields(task)})

    def make_config(self, task, vocabulary_size, target_vocabulary_size=None, is_packed=False):
        """The config of the model, with what the recipe's other sections and the data decide.

        Args:
            task: "translation" or "language_model".
            vocabulary_size: ids of the source, or of all text.
            target_vocabulary_size: ids of the target, where they are not the source's.
            is_packed: whether a language model's rows hold several documents.
        """
        require_choice("task", task, ("translation", "language_model"))
        derived = {"vocabulary_size": vocabulary_size}
        if task == "translation":
            derived["target_vocabulary_size"] = target_vocabulary_size
        else:
            derived["is_packed"] = is_packed
        return config_class(task)(**derived, **plain(self.settings))

    def to_dictionary(self):
        """All settings, as the types that JSON and YAML have."""
        return plain(self.settings)


def _require_usable(config):
    """Raises if the attention cannot do what training and decoding will ask of it."""
    uses = {"attention": {"is_causal": True, "is_cached": True}}
    if hasattr(config, "cross_attention"):
        uses["cross_attention"] = {"is_cached": True, "is_cross": True}
    for field, use in uses.items():
        try:
            config.mechanism(field).check_use(**use)
        except ValueError as error:
            raise ValueError(f"`{field}`: {error}") from error
