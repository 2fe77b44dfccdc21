"""Registry of the feed-forward networks, and the rules for a new one."""

from collections.abc import Callable, Mapping
from typing import Any

import keras

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.registry import Kind, register

#: The registered feed-forward networks by name.
FEED_FORWARDS: dict[str, type[keras.layers.Layer]] = {}


def register_feed_forward(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a feed-forward network for blocks and models by `name`.

    A network, such as a mixture of experts, is a Keras layer in a file of this folder. Blocks,
    models and recipes take it as `feed_forward=name`, and its own options as
    `feed_forward_options`. `tests/contracts/test_feed_forwards.py` tests these rules:

    - Constructor: it takes `intermediate_dim`, `activation`, `dropout` and `use_bias` as
      `FeedForward` does, options with defaults, and the arguments of `keras.layers.Layer`.
    - Shapes: `call(inputs, training=None)` maps `[B, T, M]` to `[B, T, M]`. B and T are unknown in
      graphs. With a KV cache, T is 1 in a step, so the outputs of a position must depend on its
      own inputs alone; this excludes experts with a capacity that is shared by positions.
    - Export: a step may be compiled by XLA, so no shape may depend on the values of tensors. With
      the rule before, this means in effect that all experts are computed for all positions, and
      that those not chosen get the weight 0: a mixture adds weights, but saves no computation.
    - Masks: padding positions reach the network like all others, and their outputs have no effect.
      A `call` with the argument `mask` receives the implicit Keras mask `[B, T]`, False for
      padding, or None if the inputs have none. Losses must leave padding out. The constructor sets
      `self.supports_masking = True`; without it Keras warns and drops the mask of the outputs.
    - Weights: `build(inputs_shape)` creates all of them; M is `inputs_shape[-1]`. Each has a
      gradient, which is finite, and is not 0 in a batch of about a thousand positions. In a small
      batch it may be 0, as that of an expert that no position chooses.
    - Losses: `self.add_loss(loss)` in `call`, if `training`, adds a scalar that is a mean over
      tokens, such as a load-balancing loss. Both `model.fit` and `TrainingLoop` minimize it in
      addition to the model's loss; neither the log of `TrainingLoop` nor validation includes it.
    - Saving: blocks and models save the name and the options, so the file must be imported before
      a model is loaded; files of this folder are. A layer that is passed as an instance also needs
      `get_config` and `keras.saving.register_keras_serializable`.
    """
    return register(FEED_FORWARDS, name)


def make_feed_forward(
    feed_forward: str | dict[str, Any] | keras.layers.Layer,
    options: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    dtype: Any = None,
    **settings: Any,
) -> keras.layers.Layer:
    """Returns a new feed-forward network, by registered name or with the config of a layer.

    Args:
        feed_forward: A registered name, or a layer or its serialized form, whose config is copied.
        options: Arguments of its own, for a registered name.
        name: Name of the new layer.
        dtype: Dtype policy of the new layer.
        **settings: Arguments that every registered network takes. A layer keeps its own.
    """
    if isinstance(feed_forward, str):
        kind = FEED_FORWARDS[require_choice("feed_forward", feed_forward, FEED_FORWARDS)]
        try:
            return kind(**settings, **(options or {}), name=name, dtype=dtype)
        except UserError as error:
            if options and error.argument in options:
                raise error.renamed(f"feed_forward_options.{error.argument}") from error
            raise
        except (TypeError, ValueError) as error:  # of Keras: an argument that it does not know
            if not options:
                raise
            expected, fix = f"options of the feed-forward network {feed_forward!r}", f"{error}."
            raise ArgumentError("feed_forward_options", expected, options, fix=fix) from error
    if options:
        expected = "empty beside a layer, which has its own settings"
        raise ArgumentError("feed_forward_options", expected, options)
    if isinstance(feed_forward, dict):
        feed_forward = keras.saving.deserialize_keras_object(feed_forward)
    if not isinstance(feed_forward, keras.layers.Layer):
        raise ArgumentError("feed_forward", "a registered name or a Keras layer", feed_forward)
    layer: keras.layers.Layer = feed_forward
    return type(layer).from_config({**layer.get_config(), "name": name, "dtype": dtype})
