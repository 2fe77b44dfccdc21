"""Serving of exports over REST and gRPC, compatible with TensorFlow Serving.

The server needs the packages of the extra "serve": `pip install 'keras-transformer-tf[serve]'`; the
client needs none of them.
"""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily

if TYPE_CHECKING:
    from keras_transformer.serving.client import Client, ServerError
    from keras_transformer.serving.model_config import (
        ModelSource,
        find_models,
        read_model_config,
    )
    from keras_transformer.serving.server import Server
    from keras_transformer.serving.settings import RequestLimits, ServerSettings

__all__ = [
    "Client",
    "ModelSource",
    "RequestLimits",
    "Server",
    "ServerError",
    "ServerSettings",
    "find_models",
    "read_model_config",
]

import_lazily(
    __name__,
    {
        "client": "Client ServerError",
        "model_config": "ModelSource find_models read_model_config",
        "server": "Server",
        "settings": "RequestLimits ServerSettings",
    },
)
