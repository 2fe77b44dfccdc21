"""A layer that does one thing otherwise for a while."""

import contextlib


@contextlib.contextmanager
def replaced_method(layer, name, make):
    """Within it, a method of one layer is another; whatever happens, it is itself again afterwards.

    Nothing is saved, tracked or traced anew, and no other layer notices. A model that is used by
    another thread meanwhile is changed there, too.

    Args:
        layer: a Keras layer.
        name: of the method.
        make: a function from the method to what takes its place.

    >>> import keras
    >>> layer, three = keras.layers.Identity(), keras.ops.convert_to_tensor(3.0)
    >>> with replaced_method(layer, "call", lambda call: lambda inputs: 2 * call(inputs)):
    ...     float(layer(three))
    6.0
    >>> float(layer(three))
    3.0
    """
    outer = vars(layer).get(name)  # of a context around this one
    # Past Keras, which would look for variables to track.
    object.__setattr__(layer, name, make(getattr(layer, name)))
    try:
        yield
    finally:
        if outer is None:
            object.__delattr__(layer, name)
        else:
            object.__setattr__(layer, name, outer)
