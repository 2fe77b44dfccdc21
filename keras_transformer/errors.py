"""The one exception that means "the user can put this right"."""


class UserError(ValueError):
    """A mistake in what the user gave: a file, a recipe, an argument.

    The message is one line: where it is, what is wrong, what to do. The command line prints it
    without a traceback and exits with code 2.
    """
