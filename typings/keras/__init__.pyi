# Annotations of Keras are incomplete: keras.ops, for example, is declared to return None.
from typing import Any

def __getattr__(name: str) -> Any: ...
