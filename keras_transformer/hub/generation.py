"""Generation defaults of a checkpoint as settings of our searches."""

from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import SearchSettings
from keras_transformer.hub.checkpoint import CONFIG, GENERATION_CONFIG, Checkpoint, unused_of
from keras_transformer.hub.reading import GENERATION_KEYS
from keras_transformer.text import SpecialIds

# Values without effect; others are refused. None is allowed for every key.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "num_beam_groups": (1,),
    "diversity_penalty": (0,),
    "typical_p": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "begin_suppress_tokens": (),
    "forced_decoder_ids": (),
    "exponential_decay_length_penalty": (),
    "sequence_bias": (),
    "penalty_alpha": (0,),
    "guidance_scale": (1,),
    "num_return_sequences": (1,),
    "renormalize_logits": (False, True),
    "stop_strings": (),
    "dola_layers": (),
    "min_p": (),
}
# Keys about sampling, execution or provenance, which do not affect the search.
_HARMLESS = frozenset(
    {
        *("do_sample", "temperature", "_from_model_config", "transformers_version", "use_cache"),
        *("output_scores", "output_logits", "output_attentions", "output_hidden_states"),
        *("return_dict_in_generate", "max_time", "cache_implementation", "is_assistant"),
        *("remove_invalid_values", "low_memory", "num_assistant_tokens"),
        *("_eos_token_tensor", "trust_remote_code", "bos_token_id"),
        "pad_token_id",  # it only fills rows after the end
    }
)
_STOPPING = {True: "early", False: "heuristic", "never": "never"}


#: Keys of `generation_config.json` by the setting that they become, where the names differ.
_KEYS = {
    "beams": "num_beams",
    "forbidden_ids": "suppress_tokens",
    "forced_first_id": "forced_bos_token_id",
    "no_repeat_ngram": "no_repeat_ngram_size",
}


def search_of(checkpoint: Checkpoint, special_ids: SpecialIds) -> dict[str, Any]:
    """Returns the generation defaults of a checkpoint as fields of `SearchSettings`.

    As in Hugging Face, `config.json` has them if there is no `generation_config.json`.

    Args:
        checkpoint: The `Checkpoint`.
        special_ids: Those of the model.
    """
    name, given = GENERATION_CONFIG, checkpoint.generation
    if given is None:
        name, config = CONFIG, checkpoint.config
        given = {key: config[key] for key in GENERATION_KEYS if key in config}
    try:
        settings = _settings(dict(given), special_ids)
        SearchSettings(**settings)
    except UserError as error:
        raise error.renamed(_KEYS).at(checkpoint.directory / name) from error
    except (TypeError, AttributeError) as error:
        problem = f"has a value of the wrong type ({error})."
        raise UserError(problem, where=checkpoint.directory / name) from error
    return settings


def _settings(given: dict[str, Any], special_ids: SpecialIds) -> dict[str, Any]:
    values = {key: value for key, value in given.items() if value is not None}
    _require_ids(values, special_ids)
    for key, allowed in _WITHOUT_EFFECT.items():
        value = values.pop(key, None)
        if value is not None and value != [] and value not in allowed:
            raise UserError(
                f"{value!r} is not supported.",
                argument=key,
                fix="Remove the key from a copy of the file, if you can do without it.",
            )
    settings: dict[str, Any] = {
        "method": "beam",
        "beams": values.pop("num_beams", 1),
        "length_penalty": values.pop("length_penalty", 1.0),
        "length_normalization": "length",
        "stopping": _stopping(values.pop("early_stopping", False)),
        "max_length_ratio": 0.0,
        "max_length_margin": _NO_MARGIN,
    }
    # These count the decoder's start token, which our lengths do not; but ours count a forced
    # first token as well.
    if "max_new_tokens" in values:
        values.pop("max_length", None)
        settings["max_length"] = values.pop("max_new_tokens")
    elif "max_length" in values:
        settings["max_length"] = max(1, values.pop("max_length") - 1)
    if "min_new_tokens" in values:
        values.pop("min_length", None)
        settings["min_length"] = values.pop("min_new_tokens") + 1
    elif values.get("min_length"):
        settings["min_length"] = values.pop("min_length")
    values.pop("min_length", None)
    shared = ("no_repeat_ngram", "repetition_penalty", "top_k", "top_p", "forced_first_id")
    for setting in shared:
        if (key := _KEYS.get(setting, setting)) in values:
            settings[setting] = values.pop(key)
    if not settings.get("top_k"):
        settings.pop("top_k", None)  # 0: no limit
    forbidden = [
        *values.pop("suppress_tokens", ()),
        *_single_words(values.pop("bad_words_ids", ())),
    ]
    always = {special_ids.padding, special_ids.start}
    settings["forbidden_ids"] = sorted(set(forbidden) - always)
    if unknown := values.keys() - _HARMLESS:
        raise UserError(
            f"has unknown keys: {unused_of(unknown)}.",
            fix="If you can do without them, remove them from a copy of the file.",
        )
    return settings


#: Margin with which the length of the source has no effect on that of the target.
_NO_MARGIN = 1 << 20


def _stopping(value: Any) -> str:
    if isinstance(value, bool) or value == "never":
        return _STOPPING[value]
    raise UserError(f'must be true, false or "never"; it is {value!r}.', argument="early_stopping")


def _single_words(words: Any) -> list[int]:
    if not isinstance(words, list | tuple) or not all(
        isinstance(word, list) and len(word) == 1 for word in words
    ):
        raise UserError("must be lists of one token each.", argument="bad_words_ids")
    return [word[0] for word in words]


def _require_ids(values: dict[str, Any], special_ids: SpecialIds) -> None:
    """Checks that the ids of generation are those of the model, and removes them."""
    for key, role in (
        ("decoder_start_token_id", "start"),
        ("eos_token_id", "end"),
        ("forced_eos_token_id", "end"),
    ):
        expected, value = getattr(special_ids, role), values.pop(key, None)
        if value not in (None, expected, [expected]):
            raise UserError(f"is {value!r}, but the model has {expected}.", argument=key)
