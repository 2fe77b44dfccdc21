"""Registry of the tokenizers. TensorFlow is imported only when one of them is used.

A file `<name>_tokenizer.py` has a class `(Tokenizer, registered_name="<name>")`.
"""

from typing import TYPE_CHECKING

from keras_transformer._utils.registry import FileRegistry

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer

#: Classes of the tokenizers whose files have been imported, by name.
TOKENIZERS: "FileRegistry[type[Tokenizer]]" = FileRegistry(__name__, "tokenizer")


def registered_tokenizers() -> list[str]:
    """Returns the names of all tokenizers, sorted.

    >>> "sentencepiece" in registered_tokenizers()
    True
    """
    return TOKENIZERS.names()


def tokenizer_class(name: str) -> "type[Tokenizer]":
    """Returns the class of a tokenizer.

    >>> tokenizer_class("bytes").__name__
    'ByteTokenizer'
    """
    return TOKENIZERS.find(name)
