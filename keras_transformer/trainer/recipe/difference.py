"""In what two recipes differ."""


def recipe_difference(old, new):
    """Returns a list of (dotted key, old value, new value); what one of them has not is None.

    Args:
        old, new: `Recipe`s.

    Example:

    >>> from keras_transformer.trainer.recipe import load_recipe
    >>> longer = load_recipe("quickstart", overrides=["training.warmup_steps=300"])
    >>> recipe_difference(load_recipe("quickstart"), longer)
    [('training.warmup_steps', 150, 300)]
    """
    before, after = dict(_leaves(old.to_dictionary())), dict(_leaves(new.to_dictionary()))
    return [
        (key, before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _leaves(dictionary, prefix=""):
    for key, value in dictionary.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
