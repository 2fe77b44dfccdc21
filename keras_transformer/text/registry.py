"""Registry of the tokenizer kinds. TensorFlow is imported only when a kind is used.

The file `<name>_tokenizer.py` of this package registers the kind `<name>`: its class derives from
`Tokenizer` with `registered_name="<name>"`. Nothing else needs to change for a new kind.
"""

import importlib
import pathlib
from typing import TYPE_CHECKING

from keras_transformer._utils.checks import require_choice

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer

_SUFFIX = "_tokenizer"

#: Classes of the kinds that have been imported, by registered name.
TOKENIZERS: "dict[str, type[Tokenizer]]" = {}


def registered_tokenizers() -> list[str]:
    """Returns the names of all tokenizer kinds, sorted.

    >>> registered_tokenizers()
    ['bytes', 'sentencepiece', 'wordpiece']
    """
    files = pathlib.Path(__file__).parent.glob(f"*{_SUFFIX}.py")
    return sorted({*(path.stem.removesuffix(_SUFFIX) for path in files), *TOKENIZERS})


def tokenizer_class(name: str) -> "type[Tokenizer]":
    """Returns the class of a tokenizer kind.

    >>> tokenizer_class("bytes").__name__
    'ByteTokenizer'
    """
    if require_choice("tokenizer", name, registered_tokenizers()) not in TOKENIZERS:
        importlib.import_module(f"{__package__}.{name}{_SUFFIX}")
    return TOKENIZERS[name]
