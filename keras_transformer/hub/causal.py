"""Base of the families that are causal language models: GPT-2, OPT, Llama and those like it."""

from typing import Any, ClassVar

import numpy as np

from keras_transformer.hub.family import Family
from keras_transformer.hub.reading import ConfigReader, WeightLoader
from keras_transformer.models import LanguageModel
from keras_transformer.text import SpecialIds

# Logit of the padding token that is added to a model without one: its exp() is 0 relative to any
# other logit's, and half precision can represent it.
_NEVER = -1e4


class CausalFamily(Family):
    """Base of causal language models.

    Texts begin with the start token, as in pretraining. If the tokenizer of a model adds no start
    token to a prompt (GPT-2, Qwen2, Qwen3), the token that separated texts in pretraining is used.

    Most of these models have no padding token of their own. They get one more token, whose logit is
    so low that no probability changes, unless the tokenizer has a token that no text contains.

    Args: those of `Family`.
    """

    #: End of the architectures that write text.
    architecture = "ForCausalLM"

    tokenizer_roles: ClassVar[tuple[str, ...]] = ("padding",)

    def model_class(self, config: ConfigReader) -> type[LanguageModel]:
        for name in config.get("architectures") or ():
            if not str(name).endswith(self.architecture):
                raise config.refuse("architectures", f"names that end in {self.architecture}")
        return LanguageModel

    def special_ids(self, config: ConfigReader) -> SpecialIds:
        end, size = config.integer("eos_token_id"), config.integer("vocab_size")
        padding = config.get("pad_token_id")
        return SpecialIds(
            padding=size if padding in (None, -1, end) else config.integer("pad_token_id"),
            unknown=end,
            start=end if config.get("bos_token_id") is None else config.integer("bos_token_id"),
            end=end,
        )

    def adapt(self, settings: dict[str, Any], ids: SpecialIds) -> dict[str, Any]:
        if ids.padding < settings["vocabulary_size"]:
            return settings
        return {**settings, "vocabulary_size": ids.padding + 1, "output_bias": True}

    def load_embeddings(
        self, model: Any, weights: WeightLoader, name: str, head: str = "lm_head.weight"
    ) -> None:
        """Assigns the embeddings and the output layer.

        Args:
            model: The language model.
            weights: The `WeightLoader`.
            name: Name of the table of embeddings.
            head: Name of the output layer's table.
        """
        embedding, output = model.predictor.embedding, model.predictor.output
        size, stored = embedding.vocabulary_size, weights.shape(name)[0]

        def with_padding(table: np.ndarray) -> np.ndarray:
            return np.pad(table, ((0, size - len(table)), (0, 0))) if size > len(table) else table

        weights.assign(embedding.embeddings, name, with_padding)
        if output is embedding:
            weights.same(head, np.asarray(embedding.embeddings)[:stored])
        else:
            weights.assign(output.embeddings, head, with_padding)
        if output.bias is not None:
            weights.set(output.bias, np.float32(_NEVER) * (np.arange(size) >= stored))


def shared_embeddings(config: ConfigReader, default: bool = True) -> str:
    """Returns the setting `share_embeddings` of a config; `default` is the family's."""
    return "all" if config.boolean("tie_word_embeddings", default) else "none"
