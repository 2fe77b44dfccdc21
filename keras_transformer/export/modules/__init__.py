"""Text modules: models with their tokenizers as graph functions of strings."""

from keras_transformer.export.modules.base import (
    GraphFunction,
    TextLimits,
    TextModule,
    is_blank,
    stored_weights,
    with_end,
)
from keras_transformer.export.modules.continuation import ContinuationModule
from keras_transformer.export.modules.encoding import EncodingModule
from keras_transformer.export.modules.factory import (
    make_text_module,
    signatures_of_kind,
    text_module_class,
)
from keras_transformer.export.modules.generation import GenerationModule
from keras_transformer.export.modules.translation import (
    TranslationModule,
    TreeTranslationModule,
    parse_conllu,
    reads_trees,
    tree_inputs,
)

__all__ = [
    "ContinuationModule",
    "EncodingModule",
    "GenerationModule",
    "GraphFunction",
    "TextLimits",
    "TextModule",
    "TranslationModule",
    "TreeTranslationModule",
    "is_blank",
    "make_text_module",
    "parse_conllu",
    "reads_trees",
    "signatures_of_kind",
    "stored_weights",
    "text_module_class",
    "tree_inputs",
    "with_end",
]
