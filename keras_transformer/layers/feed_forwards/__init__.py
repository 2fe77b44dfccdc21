"""Feed-forward networks of Transformer blocks: one file per network, registered by name."""

from keras_transformer._utils.registry import import_members
from keras_transformer.layers.feed_forwards.feed_forward import FeedForward
from keras_transformer.layers.feed_forwards.registry import (
    FEED_FORWARDS,
    make_feed_forward,
    register_feed_forward,
)

__all__ = ["FEED_FORWARDS", "FeedForward", "make_feed_forward", "register_feed_forward"]

# A new network in this folder is registered without being named above.
import_members(__name__, __path__)
