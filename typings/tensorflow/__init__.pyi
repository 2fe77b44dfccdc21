# Stubs of TensorFlow are incomplete: operators of Tensor and RaggedTensor are missing, for example.
from typing import Any

def __getattr__(name: str) -> Any: ...
