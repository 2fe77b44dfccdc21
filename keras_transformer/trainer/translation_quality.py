"""BLEU and chrF of a model that is being trained, by real decodes."""

import itertools

import keras

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.export import TextModel, TrainedModel
from keras_transformer.export.modules import make_text_module, reads_trees
from keras_transformer.inference import BLEU_TOKENS, evaluate_translations, translate_lines


class TranslationQuality(keras.callbacks.Callback):
    """Translates sentences after each evaluation and compares them with their references.

    Puts "bleu" and "chrf" (from 0 to 100) and "exact_match" (a share, from 0 to 1) into the logs of
    the evaluation, for the callbacks after it in the list, and as "val_bleu" and so on into those
    of the epoch, for Keras' own: `EarlyStopping("val_bleu", mode="max")`. The search is traced once
    and reads the weights that the model has at the time.

    Args:
        tokenizers: a `TokenizerPair`, or a `Tokenizer` for both sides.
        sources: a list of strings, in CoNLL-U for a model that reads trees.
        references: a list of as many strings: what a person would have written.
        search: a `BeamSearch`, a `GreedySearch` or `SearchSettings`; by default that of an export.
        bleu_tokens: what BLEU counts, see `evaluate_translations`.

    Attributes:
        evaluation: the last `Evaluation`; None before the first.
        hypotheses: the last translations, a list of strings; None before the first.

    Example:

    >>> from keras_transformer import Transformer
    >>> from keras_transformer.decoding import GreedySearch, LengthLimits
    >>> from keras_transformer.text import ByteTokenizer
    >>> model = Transformer.from_preset(
    ...     "tiny", vocabulary_size=260, hidden_dim=16, num_encoder_layers=1, num_decoder_layers=1
    ... )
    >>> search = GreedySearch(lengths=LengthLimits(maximum=5))
    >>> quality = TranslationQuality(ByteTokenizer(), ["ja"], ["yes"], search)
    >>> quality.set_model(model)
    >>> sorted(quality.measure())
    ['bleu', 'chrf', 'exact_match']
    """

    def __init__(self, tokenizers, sources, references, search=None, bleu_tokens="13a"):
        super().__init__()
        if isinstance(sources, str) or isinstance(references, str):
            raise ValueError(
                f"`sources` and `references` must be lists of texts; got {sources!r} and "
                f"{references!r}."
            )
        if len(sources) != len(references) or not len(sources):
            raise UserError(
                f"There must be as many of each, at least one; got {len(sources):,} sources, "
                f"{len(references):,} references. Find what is missing."
            )
        self.tokenizers = tokenizers
        self.sources, self.references = list(sources), list(references)
        self.search = search
        self.bleu_tokens = require_choice("bleu_tokens", bleu_tokens, BLEU_TOKENS)
        self.evaluation = self.hypotheses = None
        self._text_model = None
        self._measured = {}

    def set_model(self, model):
        if self.model is not model:
            self._text_model = None
        super().set_model(model)

    def on_epoch_begin(self, epoch, logs=None):
        self._measured = {}

    def on_test_end(self, logs=None):
        self._measured = self.measure()
        if logs is not None:
            logs.update(self._measured)

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in self._measured.items()})

    def measure(self):
        """Translates with the model's present weights and returns what is put into the logs."""
        self.hypotheses = self.translate(self.sources)
        self.evaluation = evaluation = evaluate_translations(
            self.sources, self.hypotheses, self.references, bleu_tokens=self.bleu_tokens
        )
        return {
            "bleu": evaluation.bleu,
            "chrf": evaluation.chrf,
            "exact_match": evaluation.exact_match_share,
        }

    def translate(self, sources):
        """Translates strings with the model's present weights; returns a list of strings."""
        return [translation.text for translation in translate_lines(self.text_model, sources)]

    def samples(self, count):
        """Returns the first tuples of source, reference and last translation, to look at."""
        rows = zip(map(conllu_text, self.sources), self.references, self.hypotheses, strict=True)
        return tuple(itertools.islice(rows, count))

    @property
    def text_model(self):
        """The model over strings, a `TextModel`; it reads the weights of the time."""
        if self._text_model is None:
            kind = type(self.model).__name__
            if not (hasattr(self.model, "encode") and hasattr(self.model, "step")):
                raise UserError(
                    f"A {kind} does not translate. Leave out `TranslationQuality`, or train a "
                    "Transformer."
                )
            module = make_text_module(TrainedModel(self.model, self.tokenizers), self.search)
            self._text_model = TextModel(
                kind,
                self.model.name,
                module.functions,
                reads_trees=reads_trees(self.model.config),
            )
        return self._text_model
