"""Models of a size: who has more weights is not compared, or is made narrower."""

from keras_transformer.errors import UserError

#: How far from the first model's a number of parameters may be.
TOLERANCE = 0.1


def is_alike(parameters, reference):
    """Whether a model has nearly as many parameters as another.

    >>> is_alike(1_100_000, 1_000_000), is_alike(1_101_000, 1_000_000)
    (True, False)
    """
    return abs(parameters - reference) <= TOLERANCE * reference


def require_alike(parameters, width_keys, is_matched=False):
    """Raises a `UserError` unless all models have nearly as many parameters as the first.

    Args:
        parameters: by the name of the model.
        width_keys: for each model the key of the recipe that makes it wider.
        is_matched: whether widths have been changed already until they were as near as they get.
    """
    first = next(iter(parameters))
    reference = parameters[first]
    others = [name for name in parameters if not is_alike(parameters[name], reference)]
    if not others:
        return
    shown = "; ".join(
        f"{name!r} has {parameters[name]:,} ({parameters[name] / reference - 1:+.0%})"
        + ("" if is_matched else f", change its `{width_keys[name]}`")
        for name in others
    )
    advice = "Or have them matched with --match."
    if is_matched:
        advice = (
            "No width brings them nearer: most of their weights lie elsewhere, such as in tables "
            "of `model.max_length` rows. Change that, or the mechanism's options."
        )
    raise UserError(
        f"All models must have as many parameters as the first, {first!r}, within "
        f"{TOLERANCE:.0%}: it has {reference:,}, but {shown}. {advice}"
    )


def match_width(count, reference, width, multiple):
    """Returns the width with which a model has most nearly so many parameters.

    >>> match_width(lambda width: 3 * width * width, reference=30_000, width=40, multiple=8)
    96

    Args:
        count: a function from a width to the number of parameters, which grows with it.
        reference: the number that is wanted.
        width: where to begin.
        multiple: the width is one of this; also the least there is.
    """
    counts = {}

    def parameters(number):
        if number not in counts:
            counts[number] = count(number * multiple)
        return counts[number]

    low, high = 1, max(1, width // multiple)
    while parameters(high) < reference:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if parameters(middle) >= reference else (middle, high)
    return multiple * min((low, high), key=lambda number: abs(parameters(number) - reference))
