"""The models that a comparison can name without describing them."""


def built_in_variants(task):
    """Returns what each name changes in the `model` section of any recipe.

    "transformer" is the recipe's own model. Each registered scheme of positions and each registered
    attention mechanism is a variant by its name, and so is each other kind of model.

    >>> variants = built_in_variants("translation")
    >>> variants["transformer"], variants["learned"], variants["rotary"]
    ({}, {'positions': 'learned'}, {'attention': 'rotary'})

    Args:
        task: of the recipe.
    """
    from keras_transformer.layers.attention import MECHANISMS
    from keras_transformer.layers.positions import SCHEMES
    from keras_transformer.trainer.recipe.model_section import DEFAULT_KIND, config_classes

    variants = {"transformer": {}}
    variants |= {name: {"positions": name} for name in SCHEMES}
    for name, mechanism in MECHANISMS.items():
        variants[name] = {"attention": name}
        if not mechanism.supports_causal:  # it is for encoders
            variants[name]["decoder_attention"] = "scaled_dot_product"
    others = [kind for kind in config_classes(task) if kind != DEFAULT_KIND]
    return variants | {kind: {"kind": kind, "preset": "tiny"} for kind in others}
