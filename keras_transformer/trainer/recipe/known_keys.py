"""What to say about a key that no recipe has."""

import difflib

#: What other programs call things.
NAMES_ELSEWHERE = {
    "d_model": "model.width",
    "hidden_size": "model.width",
    "d_ff": "model.feed_forward_width",
    "n_heads": "model.num_heads",
    "lr": "training.learning_rate",
    "batch_size": "batches.tokens",
    "max_tokens": "batches.tokens",
    "update_freq": "batches.accumulate",
    "max_update": "training.steps",
    "max_epoch": "training.epochs",
    "vocab_size": "text.vocabulary_size",
    "beam_size": "evaluation.search.beams",
    "save_every": "checkpoints.every",
}


def unknown_key(section, key, known, owner="a recipe"):
    """The line about a key that nobody knows: with the nearest known one if there is any.

    >>> unknown_key("training", "stepz", {"training": ["steps", "epochs"]})
    '`training.stepz` is not a key of a recipe. Did you mean `training.steps`?'
    >>> unknown_key("training", "d_modle", {"training": ["steps", "epochs"]})
    '`training.d_modle` is not a key of a recipe. Did you mean `model.width`?'

    Args:
        section: the section it stands in; "" for none.
        key: the key.
        known: a mapping from sections to their keys.
        owner: what has those keys.
    """
    name = f"{section}.{key}" if section else key
    message = f"`{name}` is not a key of {owner}."
    place, _, field = key.partition(".")
    if not section and field in known.get(place, ()):
        return f"{message} Write `{field}:` in a line below `{place}:`."
    if near := _nearest(section, key, known):
        return f"{message} Did you mean `{near}`?"
    return f"{message} Known here: {', '.join(known[section])}."


def _nearest(section, key, known):
    """The dotted key: of that very name in another section, else the most alike."""
    everywhere = {}
    for place, names in known.items():
        for name in names:
            everywhere.setdefault(name, f"{place}.{name}" if place else name)
    if key in everywhere:
        return everywhere[key]
    here = {name: f"{section}.{name}" if section else name for name in known[section]}
    for names, cutoff in ((NAMES_ELSEWHERE | here, 0.6), (everywhere, 0.9)):
        if close := difflib.get_close_matches(key, names, n=1, cutoff=cutoff):
            return names[close[0]]
    return None
