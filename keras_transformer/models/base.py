"""What the models with a source share: how an encoder and a decoder are one model."""

import dataclasses

import keras
import tensorflow as tf

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


class SourceModel(ConfiguredModel):
    """Base of the models that read a source and write a target.

    A functional model: inputs `{"source": [B, S], "target": [B, T]}`, integer ids padded at the end
    with `padding_id`; outputs logits `[B, T, V]` of the token after each of `target`. For decoding
    it answers `encode`, `initial_state` and `step`, with the same layers.

    Args:
        config, dtype: see `ConfiguredModel`.
        encoder: gives the decoder's memory when called with source ids, and a `Memory` in `encode`.
        decoder: a `StepwiseDecoder`.
        further_inputs: names of inputs beside source and target, integers `[B, ·]`; `lay` gets all.
        name: of the model.
    """

    def __init__(self, config, dtype, encoder, decoder, further_inputs=(), **kwargs):
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in ("source", "target", *further_inputs)
        }
        logits = self.lay(encoder, decoder, **inputs)
        super().__init__(config, dtype, inputs, logits, **kwargs)
        self.encoder, self.decoder = encoder, decoder
        #: Names of what `encode` takes beside the source.
        self.further_inputs = tuple(further_inputs)

    @staticmethod
    def lay(encoder, decoder, source, target):
        """The logits `[B, T, V]` of the inputs."""
        return decoder(target, encoder(source), source=source)

    def encode(self, source):
        """The `Memory` of source tokens `[B, S]`."""
        return self.encoder.encode(source)

    def initial_state(self, memory, max_length=None):
        """The state of the decoder before its first token.

        Args:
            memory: what `encode` gave.
            max_length: how many target tokens there will be at most, start token included; by
                default the config's.
        """
        return self.decoder.initial_state(tf.shape(memory.states)[0], max_length, memory)

    @property
    def position_limit(self):
        """How many target tokens the positions reach, or None if there is no end to them."""
        return self.decoder.position_limit

    def step(self, ids, state, return_attention=False):
        """Logits `[B, V]` after the next target tokens `[B]`, and the state after them.

        Also takes several tokens for each row, `[B, T]`, and gives `[B, T, V]`. With
        `return_attention`, what they attend to in the source stands between the two, see
        `StepwiseDecoder.step`.
        """
        return self.decoder.step(ids, state, return_attention)

    def alignment(self, source, target):
        """What each target token attends to in the source, `[B, T, S]`; see
        `StepwiseDecoder.alignment`."""
        memory = self.encoder(tf.convert_to_tensor(source), training=False)
        return self.decoder.alignment(self._decoder_weights(target, memory))

    def attention_weights(self, source, target):
        """All attention weights of a pass: `{"cross": [B, N, H, T, S]}` for N layers."""
        memory = self.encoder(tf.convert_to_tensor(source), training=False)
        weights = self._decoder_weights(target, memory)
        return {"cross": tf.stack([layer["cross"] for layer in weights], axis=1)}

    def _decoder_weights(self, target, memory):
        """A list of the weights of each of the decoder's layers, for what the encoder gave."""
        _, weights = self.decoder(
            tf.convert_to_tensor(target),
            memory,
            training=False,
            return_attention_scores=True,
            return_states=True,
        )
        return weights
