"""The recipe's `model`: a kind, a preset, and any setting of the model's config."""

import dataclasses

from keras_transformer.checks import require_choice, require_mapping
from keras_transformer.trainer.recipe.recipe_error import RecipeError
from keras_transformer.trainer.recipe.section import plain, with_dotted_names

#: Fields of the configs that follow from the rest of the recipe.
DERIVED = frozenset({"vocabulary_size", "target_vocabulary_size", "padding_id", "is_packed"})

#: The kind of model where a recipe says nothing.
DEFAULT_KIND = "transformer"


def config_classes(task):
    """The classes of the configs of a task's models, by kind."""
    from keras_transformer import models

    return {
        "translation": {
            "transformer": models.TransformerConfig,
            "recurrent": models.RecurrentSeq2SeqConfig,
            "convolutional": models.ConvolutionalSeq2SeqConfig,
        },
        "language_model": {"transformer": models.LanguageModelConfig},
    }[require_choice("task", task, ("translation", "language_model"))]


def model_keys(task):
    """The keys that a recipe's `model` may have, of whatever kind it is."""
    fields = (name for config in config_classes(task).values() for name in _fields(config))
    return tuple(dict.fromkeys(("kind", "preset", *fields)))


def _fields(config):
    names = (field.name for field in dataclasses.fields(config))
    return tuple(name for name in names if name not in DERIVED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSection:
    """The model's settings, every one of them.

    A recipe gives a `kind` ("transformer", or for translation "recurrent" or "convolutional"), a
    `preset` ("tiny", "small", "base" or "big"; without one, the defaults of the config) and any
    field of the kind's config, such as `TransformerConfig`. What is kept is what they come to,
    without the preset's name: what stands there is what is built.

    Attributes:
        kind: of the model.
        settings: a mapping from fields of the config; the sizes of vocabularies, the id of padding
            and whether rows are packed are not among them.
    """

    kind: str
    settings: dict

    @property
    def reads_trees(self):
        """Whether the model reads the trees of its source."""
        return self.settings.get("tree_positions", "none") != "none"

    @classmethod
    def resolve(cls, values, task, text):
        """Makes the section from what a recipe says.

        Args:
            values: the recipe's keys and values, all of them known.
            task: "translation" or "language_model".
            text: the `TextSection`, or None if that could not be made.
        """
        values, kinds = dict(values), config_classes(task)
        size = text.vocabulary_size if text is not None else 1
        if text is not None and not text.shared and task == "translation":
            # Two vocabularies cannot share a table, so the default cannot be that they do.
            values.setdefault("share_embeddings", "target")
        try:
            kind = require_choice("kind", values.pop("kind", DEFAULT_KIND), kinds)
            config_kind = kinds[kind]
            _require_known(values, kind, config_kind)
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
        settings = {name: plain(getattr(config, name)) for name in _fields(config_kind)}
        return cls(kind=kind, settings=settings)

    def make_config(self, task, vocabulary_size, target_vocabulary_size=None, is_packed=False):
        """The config of the model, with what the recipe's other sections and the data decide.

        Args:
            task: "translation" or "language_model".
            vocabulary_size: ids of the source, or of all text.
            target_vocabulary_size: ids of the target, where they are not the source's.
            is_packed: whether a language model's rows hold several documents.
        """
        derived = {"vocabulary_size": vocabulary_size}
        if task == "translation":
            derived["target_vocabulary_size"] = target_vocabulary_size
        else:
            derived["is_packed"] = is_packed
        return config_classes(task)[self.kind](**derived, **plain(self.settings))

    def to_dictionary(self):
        """Kind and settings, as the types that JSON and YAML have."""
        return {"kind": self.kind, **plain(self.settings)}


def _require_known(values, kind, config_kind):
    """Raises if a setting is another kind's."""
    known = _fields(config_kind)
    for name in values:
        if name not in ("preset", *known):
            raise ValueError(
                f"`{name}` is no setting of a model of the kind {kind!r}, which has "
                f"{', '.join(known)}. Leave it out, or choose another `kind`."
            )


def _require_usable(config):
    """Raises if the attention cannot do what decoding will ask of it."""
    if not hasattr(config, "decoder_field"):  # no self-attention: its one use is checked already
        return
    config.require_usable(config.decoder_field, is_causal=True, is_cached=True)
