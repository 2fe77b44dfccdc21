"""From a trained model and a text to an explanation."""

import dataclasses
import math

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer, require_seed
from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.explain.agreement import Agreement, kendall_tau, over_numbers
from keras_transformer.analysis.explain.attributions import (
    attention_rollout,
    cross_mechanisms,
    erasure,
    gradient_times_input,
)
from keras_transformer.analysis.explain.weight_change import even_weights, shuffle_weights
from keras_transformer.export.modules import make_text_module
from keras_transformer.export.text_model import TextModel
from keras_transformer.export.text_module import is_blank, with_end
from keras_transformer.export.trained_model import TrainedModel, is_trained_model
from keras_transformer.export.versions import resolve_version
from keras_transformer.inference.translation import as_tensor, as_text, translate_lines
from keras_transformer.text import START_ID

#: So many logits are held at once, at most: 64 MB of them.
LOGITS_AT_ONCE = 2**24


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePair:
    """One sentence and its translation, in ids.

    Attributes:
        model: a model of source and target, in full precision, see `in_full_precision`.
        source: ids `[S]`, END at their end.
        target: ids `[T]` that the decoder reads, START at their beginning.
        labels: ids `[T]` that it is to write, END at their end.
    """

    model: keras.Model
    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray

    def attention_weights(self):
        """The weights of all heads by kind, each `[N, H, ·, ·]`; see `Transformer`."""
        weights = self.model.attention_weights(self.source[None], self.target[None])
        return {kind: np.array(part[0], np.float64) for kind, part in weights.items()}

    def log_probabilities(self, sources):
        """Log-probabilities `[B, T, V]` of the target after each of `sources` `[B, S]`."""
        inputs = {"source": tf.convert_to_tensor(sources), "target": self.targets(len(sources))}
        return tf.nn.log_softmax(self.model(inputs, training=False)).numpy()

    def targets(self, rows):
        """The target as many times, `[B, T]`."""
        return tf.convert_to_tensor(np.tile(self.target, (rows, 1)))

    def chosen(self, values):
        """Of values `[..., T, V]` those of the labels, `[..., T]`."""
        return values[..., np.arange(len(self.labels)), self.labels]

    def portions(self, rows):
        """Slices of so many rows that a model can be given at once."""
        vocabulary = self.model.output_shape[-1]
        size = max(1, LOGITS_AT_ONCE // (len(self.target) * vocabulary))
        return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def in_full_precision(model):
    """The model, or, of one in half precision, its twin in float32 with equal weights.

    Gradients and differences of probabilities are too small for half precision.
    """
    if keras.backend.standardize_dtype(model.dtype_policy.compute_dtype) in ("float32", "float64"):
        return model
    twin = type(model).from_config({**model.get_config(), "dtype": "float32"})
    twin.set_weights(model.get_weights())
    return twin


#: The measures by name, as a person reads them.
MEASURES = {
    "attention": "attention",
    "rollout": "rollout",
    "gradient": "gradient × input",
    "erasure": "erasure",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Explanation:
    """One sentence pair, measured in every way; see `explain`.

    Attributes:
        model: what the model is called.
        source, target: the texts.
        is_own: whether the target is the model's own translation.
        source_tokens: what a person reads for each source token, S strings, END among them.
        target_tokens: the same for what is written, T strings, END among them.
        read_tokens: the same for what the decoder reads: START, then those before the last.
        probabilities: of each target token, `[T]`.
        heads: attention weights `[N, H, ·, ·]` by kind: "cross" `[…, T, S]` and, as far as the
            model has them, "encoder" `[…, S, S]` and "decoder" `[…, T, T]`.
        measures: `[T, S]` by name of `MEASURES`. "attention" is the mean of all cross-attention
            heads. "gradient" and "erasure" have signs: above 0 a source token speaks for the target
            token. "rollout" is missing where a kind of weights is.
        changes: `WeightChange`s; none for a model whose weights cannot be changed.
        seed: of the random permutations.
    """

    model: str
    source: str
    target: str
    is_own: bool
    source_tokens: tuple
    target_tokens: tuple
    read_tokens: tuple
    probabilities: np.ndarray
    heads: dict
    measures: dict
    changes: tuple
    seed: int

    def agreement(self, first, second):
        """The `Agreement` of two measures, about sizes: signs do not count."""
        sizes = [np.abs(self.measures[name]) for name in (first, second)]
        strongest = [part.argmax(axis=1) for part in sizes]
        return Agreement(first, second, kendall_tau(*sizes), strongest[0] == strongest[1])

    def agreements(self):
        """The `Agreement` of each pair of measures."""
        names = list(self.measures)
        return [
            self.agreement(first, second)
            for number, first in enumerate(names)
            for second in names[number + 1 :]
        ]

    def head_agreements(self, measure):
        """The mean tau of each head of cross-attention with a measure, `[N, H]`."""
        taus = [
            [kendall_tau(head, np.abs(self.measures[measure])) for head in block]
            for block in self.heads["cross"]
        ]
        return over_numbers(np.nanmean, np.array(taus), axis=-1)

    def change(self, kind, block=None):
        """The `WeightChange` of a kind, in one block or in all, or None."""
        for each in self.changes:
            if (each.kind, each.block) == (kind, block):
                return each
        return None

    def as_dict(self):
        """All numbers, for JSON, which has none that is not a number."""
        return {
            "model": self.model,
            "source": self.source,
            "target": self.target,
            "is_own": self.is_own,
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "probabilities": _plain(self.probabilities),
            "attention_heads": {kind: _plain(part) for kind, part in self.heads.items()},
            "measures": {name: _plain(part) for name, part in self.measures.items()},
            "agreement": [
                {
                    "measures": [each.first, each.second],
                    "mean": _plain(each.mean),
                    "spread": _plain(each.spread),
                    "taus": _plain(each.taus),
                    "same_strongest": each.is_same.tolist(),
                }
                for each in self.agreements()
            ],
            "seed": self.seed,
            "changes": [
                {
                    "kind": each.kind,
                    "block": each.block,
                    "draws": len(each.total_variation),
                    "total_variation": _plain(each.total_variation.mean(axis=0)),
                    "divergence": _plain(each.divergence.mean(axis=0)),
                    "other_token": _plain(each.is_other.mean(axis=0)),
                }
                for each in self.changes
            ],
        }


def _plain(values):
    """Numbers as lists of floats of six digits, None for what is not a number."""
    if isinstance(values, np.ndarray) and values.ndim:
        return [_plain(part) for part in values]
    return round(float(values), 6) if math.isfinite(values) else None


#: Tokens of a text, END included, at most. A page of more could not be read.
MOST_TOKENS = 128


def open_explainable(path):
    """Loads the `TrainedModel` of a run; of an export, says that it cannot be looked into."""
    if not is_trained_model(path) and _is_export(path):
        raise UserError(
            f"{path}: is an export, a graph without gradients in which no weight can be changed. "
            "Give the directory of the run that it was made from."
        )
    return TrainedModel.load(path)


def explain(trained, source, target=None, draws=100, seed=0, name=None):
    """Returns the `Explanation` of a translation.

    Args:
        trained: a `TrainedModel` of source and target, such as a `Transformer`.
        source: a text.
        target: its translation; by default the model's own.
        draws: how many random permutations of the attention weights are tried.
        seed: of these, below 2**64.
        name: what the model is called; by default as Keras calls it.

    Raises:
        UserError: if the model has no source or no attention weights, or if a text is blank, too
            long or not Unicode.

    Example:

    ```python
    explanation = explain(TrainedModel.load("runs/dates"), "12. Mai 2021")
    print(explanation.agreement("attention", "gradient").mean)
    ```
    """
    name = name or trained.model.name
    draws = require_positive_integer("draws", draws)
    seed = require_seed("seed", seed)
    _require_explainable(name, trained.model)
    _require_unicode("source", source)
    if is_blank(as_tensor([source]))[0]:
        raise UserError("The source is blank: there is nothing to explain. Give some text.")
    is_own = target is None
    source_ids = _ids(trained.tokenizers.source, source)
    _require_length("source", source_ids, trained.model)
    if is_own:
        module = make_text_module(trained)
        text_model = TextModel(type(trained.model).__name__, name, module.functions)
        (translation,) = translate_lines(text_model, [source])
        target = translation.text
    _require_unicode("target", target)
    target_ids = _ids(trained.tokenizers.target, target)
    _require_length("target", target_ids, trained.model)
    pair = SentencePair(
        in_full_precision(trained.model),
        source_ids,
        np.concatenate([[START_ID], target_ids[:-1]]).astype(np.int32),
        target_ids,
    )
    heads = _heads(name, pair)
    return Explanation(
        model=name,
        source=source,
        target=target,
        is_own=is_own,
        source_tokens=_tokens(trained.tokenizers.source, pair.source),
        target_tokens=_tokens(trained.tokenizers.target, pair.labels),
        read_tokens=_tokens(trained.tokenizers.target, pair.target),
        probabilities=np.exp(pair.chosen(pair.log_probabilities(pair.source[None]))[0]),
        heads=heads,
        measures=_measures(pair, heads),
        changes=tuple(_changes(pair, draws, seed)),
        seed=seed,
    )


def _measures(pair, heads):
    measures = {"attention": heads["cross"].mean(axis=(0, 1))}
    if {"encoder", "decoder"} <= set(heads):
        measures["rollout"] = attention_rollout(**heads)
    return {**measures, "gradient": gradient_times_input(pair), "erasure": erasure(pair)}


def _changes(pair, draws, seed):
    """What other weights do in all blocks at once and, if there are several, in each alone."""
    mechanisms = cross_mechanisms(pair.model)
    parts = [(None, mechanisms)] if mechanisms else []
    if len(mechanisms) > 1:
        parts += [(number, [each]) for number, each in enumerate(mechanisms, start=1)]
    for block, some in parts:
        yield shuffle_weights(pair, some, block, draws, seed)
        yield even_weights(pair, some, block)


def _heads(name, pair):
    try:
        return pair.attention_weights()
    except ValueError as error:  # a mechanism that has none to give
        raise UserError(f"{name}: its attention cannot be shown: {error}") from error


def _ids(tokenizer, text):
    return with_end(tokenizer.tokenize(as_tensor([text])))[0].numpy().astype(np.int32)


def _tokens(tokenizer, ids):
    return tuple(as_text(token) for token in tokenizer.tokens(tf.convert_to_tensor(ids)).numpy())


def _require_explainable(name, model):
    kind = type(model).__name__
    if not (hasattr(model, "encode") and hasattr(model, "step")):
        raise UserError(
            f"{name}: is a {kind}, which translates nothing. Name a model of source and target, "
            "such as a Transformer."
        )
    if not hasattr(model, "attention_weights"):
        raise UserError(
            f"{name}: is a {kind}, which has no `attention_weights` to explain. Name a model with "
            "attention, such as a Transformer."
        )
    further = {each.name for each in model.inputs} - {"source", "target"}
    if further:
        raise UserError(
            f"{name}: is a {kind} that reads {', '.join(sorted(further))} besides source and "
            "target, which a text alone does not give. Name a model of source and target alone."
        )


def _require_unicode(side, text):
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"The {side} is not Unicode at character {error.start + 1}. Give it in UTF-8."
        ) from error


def _require_length(side, ids, model):
    most = min(MOST_TOKENS, model.config.max_length)
    if len(ids) > most:
        raise UserError(
            f"The {side} has {len(ids):,} tokens, its end included; at most {most} can be "
            "explained. Give a shorter text."
        )


def _is_export(path):
    try:
        resolve_version(path)
    except UserError:
        return False
    return True
