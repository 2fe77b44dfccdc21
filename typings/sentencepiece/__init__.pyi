# SentencePiece sets its methods at run time.
from typing import Any

def __getattr__(name: str) -> Any: ...
