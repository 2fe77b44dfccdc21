"""How an export that cannot be trusted is spoken of, in one line."""

from keras_transformer.errors import UserError
from keras_transformer.printable import shown


def damaged(directory, name, what):
    """Returns the `UserError` for a file of an export that is not as it was written.

    >>> print(damaged("saved_models/dates/1", "saved_model.pb", "zero bytes"))
    saved_models/dates/1: damaged: saved_model.pb: zero bytes. Copy the directory again, or export
    again.
    """
    return refused(
        directory, f"damaged: {name}: {what}. Copy the directory again, or export again."
    )


def refused(directory, why):
    """Returns the `UserError` for an export: its directory, what is wrong, what to do.

    Names and texts in it may come from a file that somebody made to fool a terminal: nothing that
    breaks the line or moves the cursor is left.
    """
    return UserError(shown(f"{directory}: {why}"))


def unreadable(path, error):
    """Returns the `UserError` for a file or directory that the system does not let us read."""
    return refused(path, f"cannot be read ({error.strerror}). Make it readable, or copy it again.")


def no_tensorflow_text(directory, why):
    """Returns the `UserError` for an export whose operations are not there."""
    return refused(
        directory,
        f"its graph holds ops of tensorflow_text, which cannot be imported here ({why}). Install "
        "it in the version of your TensorFlow (pip install tensorflow-text), and import "
        "tensorflow_text before you load the model.",
    )
