"""All that is wrong with a recipe, at once."""

from keras_transformer.errors import UserError
from keras_transformer.printable import shown


class RecipeError(UserError):
    """A recipe cannot be used as it is; each mistake is a line that names its keys in backticks.

    All are told together, so that nobody has to start a training five times to find five of them.

    >>> print(RecipeError(["`seed` must be below 2**64.", "`name` is missing."]))
    The recipe has 2 mistakes:
      `seed` must be below 2**64.
      `name` is missing.

    Args:
        mistakes: the lines, at least one.
        origin: what has these mistakes.
    """

    def __init__(self, mistakes, origin="The recipe"):
        self.mistakes = tuple(shown(mistake) for mistake in mistakes)
        lines = self.mistakes
        if len(lines) > 1:
            lines = (f"{origin} has {len(lines)} mistakes:", *(f"  {line}" for line in lines))
        super().__init__("\n".join(lines))
