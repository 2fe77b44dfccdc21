"""Base class of the tokenizers of pretrained models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_boolean, require_mapping
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template
from keras_transformer.text.tokenizer import Strings, Tokenizer

# What Hugging Face calls `clean_up_tokenization_spaces`, in its order.
_CLEAN_UPS = (
    *((r" \.", "."), (r" \?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't")),
    *((" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)


class PretrainedTokenizer(Tokenizer):
    """Base of the tokenizers of pretrained models, whose ids are those of the checkpoint.

    Ids without text, such as the code of a language or `[MASK]`, are left out by `detokenize`, like
    the special ids. They are never found in a text: "[MASK]" or "</s>" in a text is tokenized like
    any other characters. A generated unknown id is left out, too.

    Args:
        tokens: Label of each id.
        texts: Text of each id in UTF-8, or None if it has none. The texts of a row of ids are
            joined.
        special_ids: Special ids of the checkpoint.
        template: Ids around each text. Defaults to the end id after it.
        clean_up: Whether `detokenize` removes spaces before punctuation and contractions, as
            `clean_up_tokenization_spaces` does in Hugging Face's tokenizers.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        texts: Sequence[bytes | None],
        special_ids: SpecialIds,
        template: Template | None = None,
        clean_up: bool = False,
    ) -> None:
        size = len(tokens)
        if max(special_ids.ids) >= size:
            expected = f"below the size of the vocabulary, {size} ids"
            raise ArgumentError("special_ids", expected, special_ids)
        special = frozenset(special_ids.ids)
        super().__init__(
            [token for number, token in enumerate(tokens) if number not in special],
            special_ids,
            template,
        )
        self._clean_up = require_boolean("clean_up", clean_up)
        has_text = np.array([text is not None for text in texts])
        has_text[list(special)] = False
        with tf.init_scope():
            self._has_text = tf.constant(has_text)  # [V]
            self._texts = tf.constant([text or b"" for text in texts])  # [V]

    def normalize(self, strings: Strings) -> tf.Tensor:
        return self.detokenize(self.tokenize(strings))

    def _is_piece(self, ids: tf.Tensor) -> tf.Tensor:
        is_known = (ids >= 0) & (ids < self.vocabulary_size)
        return is_known & tf.gather(self._has_text, tf.where(is_known, ids, 0))

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        texts = ids.with_values(tf.gather(self._texts, ids.values))
        return self._finish(tf.strings.reduce_join(texts, axis=-1))

    def _finish(self, strings: tf.Tensor) -> tf.Tensor:
        """Returns strings joined from the texts of ids as valid UTF-8, and cleaned up."""
        strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
        if self._clean_up:
            for pattern, replacement in _CLEAN_UPS:
                strings = tf.strings.regex_replace(strings, pattern, replacement)
        return strings

    def settings(self) -> dict[str, Any]:
        return {"template": self.template.settings(), "clean_up": self._clean_up}


def read_template(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns settings of `PretrainedTokenizer.settings` with a `Template` made of its arguments.

    >>> read_template({"template": {"prefix": [], "suffix": [2]}})["template"].suffix
    (2,)
    """
    arguments = require_mapping("template", settings.get("template"))
    return {**settings, "template": Template(**arguments)}
