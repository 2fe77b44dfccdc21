"""What all models share: a functional Keras model made from a config."""

import dataclasses

import keras

#: The classes of models by name; each subclass of `ConfiguredModel` enters itself.
MODELS = {}


class ConfiguredModel(keras.Model):
    """Base of the models: a functional `keras.Model` laid by a subclass from a frozen config.

    A model is saved as its config and its weights, never as code. (`keras.models.clone_model` gives
    a plain functional model with the same outputs; for one of the same class, with `step` and all,
    use `from_config(model.get_config())`.)

    Args:
        config: an instance of the class's `config_class`.
        dtype: dtype policy of all layers; by default Keras' global one.
        inputs, outputs: of the functional model that the subclass laid.
        name: of the model.
    """

    config_class = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls.config_class is not None:  # or it is a base of others
            MODELS[cls.__name__] = cls

    def __init__(self, config, dtype, inputs, outputs, name=None, **kwargs):
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.config = config
        self.dtype_policy = dtype  # where `compile` looks whether the loss must be scaled

    @classmethod
    def from_preset(cls, preset, dtype=None, name=None, **settings):
        """A model of the size known by `preset`: "tiny", "small", "base" or "big".

        Args:
            preset: the name.
            dtype, name: see the class.
            **settings: fields of the config, of which `vocabulary_size` must be given.
        """
        return cls(cls.config_class.preset(preset, **settings), dtype=dtype, name=name)

    @classmethod
    def check(cls, config, dtype):
        """Returns the dtype policy after checking the kind of the config."""
        if not isinstance(config, cls.config_class):
            raise ValueError(
                f"{cls.__name__} is made from a {cls.config_class.__name__}; got {config!r}. For a "
                f"preset use {cls.__name__}.from_preset(name, vocabulary_size=…)."
            )
        return keras.dtype_policies.get(dtype) if dtype else keras.config.dtype_policy()

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": dataclasses.asdict(self.config),
            "frozen_layers": [layer.name for layer in self.layers if not layer.trainable],
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        frozen_layers = config.pop("frozen_layers")
        model = cls(**{**config, "config": cls.config_class(**config["config"])})
        for name in frozen_layers:
            model.get_layer(name).trainable = False
        return model
