"""Rotary positions of a config, as options of the mechanism "rotary"."""

from collections.abc import Mapping
from typing import Any

from keras_transformer.hub.reading import ConfigReader

# Our names of the keys of a scaling, by its type.
_LLAMA3 = {
    "factor": "factor",
    "low_freq_factor": "low_frequency_factor",
    "high_freq_factor": "high_frequency_factor",
    "original_max_position_embeddings": "original_max_length",
}
_KEYS = {"linear": {"factor": "factor"}, "llama3": _LLAMA3}


def rotary_options(config: ConfigReader, key_dim: int) -> dict[str, Any]:
    """Returns the options of "rotary" for a config; unknown scalings are refused.

    Args:
        config: The `ConfigReader`. transformers 5 writes `rope_parameters`; earlier versions wrote
            `rope_theta`, `rope_scaling` and `partial_rotary_factor`.
        key_dim: Size of a head.
    """
    name = "rope_parameters" if config.get("rope_parameters") is not None else "rope_scaling"
    given = config.get(name)
    if given is not None and not isinstance(given, Mapping):
        raise config.refuse(name, "an object")
    values = dict(given or {})
    kind = values.pop("rope_type", None) or values.pop("type", None) or "default"
    values.pop("type", None)
    theta = values.pop("rope_theta", None) or config.number("rope_theta", 10_000.0)
    part = values.pop("partial_rotary_factor", None) or config.number("partial_rotary_factor", 1.0)
    options: dict[str, Any] = {"max_wavelength": float(theta)}
    if part != 1:
        options["rotary_dim"] = int(key_dim * part)
    if kind == "default" and not values:
        return options
    keys = _KEYS.get(kind)
    if keys is None or keys.keys() != values.keys():
        known = "; ".join(f"{each!r} with {', '.join(_KEYS[each])}" for each in _KEYS)
        raise config.refuse(name, f"null or a scaling of type {known}")
    options["scaling"] = {"kind": kind, **{keys[key]: value for key, value in values.items()}}
    return options
