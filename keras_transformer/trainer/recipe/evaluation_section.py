"""The recipe's `evaluation`: how the model is judged while it learns."""

import dataclasses
from collections.abc import Mapping

from keras_transformer.checks import (
    require_choice,
    require_integer,
    require_mapping,
    require_positive_integer,
)
from keras_transformer.trainer.recipe.known_keys import unknown_key
from keras_transformer.trainer.recipe.recipe_error import RecipeError
from keras_transformer.trainer.recipe.section import (
    Section,
    or_null,
    plain,
    setting,
    with_dotted_names,
)


def _require_search(name, value):
    """Returns all fields of `SearchSettings`, those of `value` and the defaults."""
    from keras_transformer.decoding import SearchSettings

    known = [field.name for field in dataclasses.fields(SearchSettings)]
    mistakes = [
        unknown_key(name, key, {name: known})
        for key in require_mapping(name, value)
        if key not in known
    ]
    try:
        settings = _search_settings({key: value[key] for key in value if key in known})
        # Its rules are checked where they are made.
        settings.make(longest=settings.max_length or settings.min_length)
    except (TypeError, ValueError) as error:
        names = {field: f"{name}.{field}" for field in known}
        mistakes.append(with_dotted_names(str(error), names, name))
    if mistakes:
        raise RecipeError(mistakes)
    return plain(dataclasses.asdict(settings))


def _search_settings(values):
    from keras_transformer.decoding import SearchSettings

    forbidden = values.get("forbidden_ids", ())
    if not isinstance(forbidden, list | tuple):
        raise ValueError(f"`forbidden_ids` must be a list of ids; got {forbidden!r}.")
    for number in forbidden:
        require_integer("forbidden_ids", number, minimum=0)
    return SearchSettings(**{**values, "forbidden_ids": tuple(forbidden)})


def _require_bleu_tokens(name, value):
    from keras_transformer.inference import BLEU_TOKENS

    return require_choice(name, value, BLEU_TOKENS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSection(Section):
    """How the model is judged while it learns, and when it has learned enough.

    Attributes:
        every: updates between evaluations.
        sentences: validation sentences that are translated for BLEU and chrF; 0 for none. Of no
            meaning for a language model.
        search: the fields of `SearchSettings`; also those of the exported model. The defaults are
            the paper's (§6.1): 4 beams, length penalty 0.6.
        stop_after: evaluations without an improvement after which training stops; null for never.
        metric: by which "better" is told: "loss", "bleu" or "chrf".
        bleu_tokens: what BLEU counts, by sacrebleu's names: "13a" for texts as people write them,
            "none" for texts that are cut into tokens already; see `evaluate_translations`.
        show: translations that are shown at the end.
    """

    key = "evaluation"

    every: int = setting(1000, require_positive_integer)
    sentences: int = setting(500, require_integer, minimum=0)
    search: Mapping = setting({}, _require_search)
    stop_after: int | None = setting(None, or_null(require_positive_integer))
    metric: str = setting("loss", require_choice, choices=("loss", "bleu", "chrf"))
    bleu_tokens: str = setting("13a", _require_bleu_tokens)
    show: int = setting(12, require_integer, minimum=0)

    def search_settings(self):
        """The `SearchSettings` that `search` stands for."""
        return _search_settings(self.search)

    def disagreements(self):
        if self.metric != "loss" and not self.sentences:
            yield (
                f"`evaluation.sentences` must be at least 1 for `evaluation.metric` "
                f"{self.metric!r}; got 0."
            )
