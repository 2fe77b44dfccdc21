"""Text metrics, such as BLEU, of a model that is being trained."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.export import TrainedModel
from keras_transformer.inference import BLEU_TOKENS, evaluate_translations, translate_lines
from keras_transformer.inference.evaluation import Evaluation
from keras_transformer.inference.text_model import TextModel
from keras_transformer.metrics import TEXT_METRICS
from keras_transformer.text import Tokenizer, TokenizerPair
from keras_transformer.trainer.callbacks import Logs, require_parallel

if TYPE_CHECKING:
    from keras_transformer.decoding import SearchSettings
    from keras_transformer.decoding.search import Search


class TranslationQuality(keras.callbacks.Callback):
    """Translates sentences after each evaluation and compares them with references.

    The callback adds text metrics to the logs of the evaluation, for later callbacks in the list,
    and with the prefix "val_" to the logs of the epoch, for callbacks such as
    `EarlyStopping("val_bleu", mode="max")`.

    Args:
        tokenizers: A `TokenizerPair`, or a `Tokenizer` for both sides.
        sources: List of strings, in CoNLL-U for a model that reads trees.
        references: List of reference translations, one per source.
        search: A search, such as `BeamSearch`, or `SearchSettings`. Default: that of an export.
        bleu_tokens: String. Tokenization of BLEU by sacrebleu's names. Default "13a".
        metrics: List of the names of text metrics, such as "bleu". Default: all registered ones.

    Attributes:
        evaluation: The last `Evaluation`; None before the first.
        hypotheses: The last translations, a list of strings; None before the first.

    ```python
    quality = TranslationQuality(tokenizers, ["ja", "nein"], ["yes", "no"])
    callbacks = [quality, TrainingScalars("logs")]
    model.fit(batches.dataset(), validation_data=validation.dataset(), callbacks=callbacks)
    ```
    """

    model: Any

    def __init__(
        self,
        tokenizers: Tokenizer | TokenizerPair,
        sources: Sequence[str],
        references: Sequence[str],
        search: "Search | SearchSettings | None" = None,
        bleu_tokens: str = "13a",
        metrics: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        require_parallel(sources=sources, references=references)
        self.tokenizers: TokenizerPair = TokenizerPair.of(tokenizers)
        self.sources: list[str] = list(sources)
        self.references: list[str] = list(references)
        self.search = search
        self.bleu_tokens: str = require_choice("bleu_tokens", bleu_tokens, BLEU_TOKENS)
        if metrics is not None:
            metrics = [require_choice("metrics", name, TEXT_METRICS) for name in metrics]
        self.metrics: list[str] | None = metrics
        self.evaluation: Evaluation | None = None
        self.hypotheses: list[str] | None = None
        self._text_model: TextModel | None = None
        self._measured: dict[str, float] = {}

    def set_model(self, model: keras.Model) -> None:
        if self.model is not model:
            self._text_model = None
        super().set_model(model)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._measured = {}

    def on_test_end(self, logs: Logs = None) -> None:
        self._measured = self.measure()
        if logs is not None:
            logs.update(self._measured)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in self._measured.items()})

    def measure(self) -> dict[str, float]:
        """Translates with the model's current weights and returns the metrics by name."""
        self.hypotheses = self.translate(self.sources)
        self.evaluation = evaluate_translations(
            self.sources,
            self.hypotheses,
            self.references,
            bleu_tokens=self.bleu_tokens,
            metrics=self.metrics,
        )
        return dict(self.evaluation.metrics)

    def translate(self, sources: Sequence[str]) -> list[str]:
        """Translates strings with the model's current weights."""
        return [translation.text for translation in translate_lines(self.text_model, sources)]

    def samples(self, count: int) -> tuple[tuple[str, str, str], ...]:
        """Returns the first sources, each with its reference and its last translation."""
        hypotheses = self.hypotheses or []
        rows = zip(map(conllu_text, self.sources), self.references, hypotheses, strict=True)
        return tuple(itertools.islice(rows, count))

    @property
    def text_model(self) -> TextModel:
        """The model over strings, which uses the current weights."""
        if self._text_model is None:
            if not (hasattr(self.model, "encode") and hasattr(self.model, "step")):
                problem = f"A {type(self.model).__name__} does not translate."
                fix = "Leave out `TranslationQuality`, or train a Transformer."
                raise UserError(problem, fix=fix)
            trained = TrainedModel(self.model, self.tokenizers)
            self._text_model = TextModel.of(trained, self.search)
        return self._text_model
