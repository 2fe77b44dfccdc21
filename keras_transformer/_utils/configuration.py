"""Configurations of Keras objects, read from the attributes that mirror constructor arguments."""

import inspect
from typing import Any

import keras


def constructor_arguments(instance: Any) -> dict[str, Any]:
    """Returns the constructor arguments of a Keras object, for its `get_config`.

    Each is read from the attribute of the same name, if there is one. A constructor with `**kwargs`
    also takes the arguments of its base class, up to Keras' own.
    """
    names: list[str] = []
    for kind in type(instance).__mro__:
        if kind.__module__.startswith("keras."):
            break
        if "__init__" in vars(kind):
            parameters = list(inspect.signature(kind.__init__).parameters.values())
            names += [each.name for each in parameters[1:] if each.kind != each.VAR_KEYWORD]
            if parameters[-1].kind != inspect.Parameter.VAR_KEYWORD:
                break
    values = {name: getattr(instance, name) for name in names if hasattr(instance, name)}
    return {
        name: keras.saving.serialize_keras_object(value) if hasattr(value, "get_config") else value
        for name, value in values.items()
    }


class ConfiguredLayer(keras.layers.Layer):
    """A Keras layer whose `get_config` has the attributes named like constructor arguments."""

    def new_weight(
        self, name: str, shape: tuple[int | None, ...], initializer: Any = None
    ) -> keras.Variable:
        """Returns a new weight; by default it is initialized with "glorot_uniform"."""
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **constructor_arguments(self)}
