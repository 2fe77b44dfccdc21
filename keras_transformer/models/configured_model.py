"""What all models share: a functional Keras model made from a config."""

import dataclasses

import keras
import tensorflow as tf


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

    def __init__(self, config, dtype, inputs, outputs, name=None, **kwargs):
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.config = config
        self.layers_dtype = dtype

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

    def compile(self, *args, jit_compile="auto", **kwargs):
        """As in Keras, but "auto" means XLA only where there is a GPU.

        On the CPU it gains nothing and costs half a minute of compilation for each shape of batch.
        """
        if jit_compile == "auto" and not tf.config.list_physical_devices("GPU"):
            jit_compile = False
        super().compile(*args, jit_compile=jit_compile, **kwargs)

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.layers_dtype),
            "config": dataclasses.asdict(self.config),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**{**config, "config": cls.config_class(**config["config"])})
