"""The messages of TensorFlow and TensorFlow Serving, whose modules have no types."""

import importlib
from typing import Any

_SERVING = "tensorflow_serving"

get_model_metadata_pb2: Any = importlib.import_module(f"{_SERVING}.apis.get_model_metadata_pb2")
get_model_status_pb2: Any = importlib.import_module(f"{_SERVING}.apis.get_model_status_pb2")
model_server_config_pb2: Any = importlib.import_module(f"{_SERVING}.config.model_server_config_pb2")
predict_pb2: Any = importlib.import_module(f"{_SERVING}.apis.predict_pb2")
prediction_log_pb2: Any = importlib.import_module(f"{_SERVING}.apis.prediction_log_pb2")
tensor_pb2: Any = importlib.import_module("tensorflow.core.framework.tensor_pb2")
