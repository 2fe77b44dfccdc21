"""Explanations: a translation by a trained model, measured in several ways."""

import dataclasses
import itertools
import math
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer, require_seed
from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.explain.agreement import Agreement, ignoring_nan, kendall_tau
from keras_transformer.analysis.explain.attributions import (
    SentencePair,
    attention_rollout,
    erasure,
    gradient_times_input,
    in_full_precision,
)
from keras_transformer.analysis.explain.weight_change import (
    WeightChange,
    cross_mechanisms,
    shuffle_weights,
    uniform_weights,
)
from keras_transformer.export.modules import is_blank
from keras_transformer.export.trained_model import TrainedModel, is_trained_model
from keras_transformer.export.versions import resolve_version
from keras_transformer.inference.text_model import TextModel
from keras_transformer.inference.translation import as_tensor, as_text
from keras_transformer.text import Tokenizer

#: The measures by name, with their titles.
MEASURES = {
    "attention": "attention",
    "rollout": "rollout",
    "gradient": "gradient × input",
    "erasure": "erasure",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Explanation:
    """Measurements of one sentence pair, made by `explain`.

    Attributes:
        model: Name of the model.
        source: The source text.
        target: The target text.
        is_own: Whether the target is the model's own translation.
        source_tokens: Readable source tokens, S strings with the end token.
        target_tokens: Readable labels, T strings with the end token.
        read_tokens: Readable tokens that the decoder reads: the start token, then all labels but
            the last.
        probabilities: Probability of each label, `[T]`.
        heads: Attention weights `[N, H, ·, ·]` by kind: "cross" `[…, T, S]` and, if the model has
            them, "encoder" `[…, S, S]` and "decoder" `[…, T, T]`.
        measures: Values `[T, S]` by name: "attention", the mean of all heads of cross-attention;
            "rollout", unless a kind of weights is missing; "gradient" and "erasure", which are
            above 0 if the source token supports the target token.
        changes: Changes with other weights; empty if the weights of the model cannot be changed.
        seed: Seed of the random permutations.
    """

    model: str
    source: str
    target: str
    is_own: bool
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    read_tokens: tuple[str, ...]
    probabilities: np.ndarray
    heads: dict[str, np.ndarray]
    measures: dict[str, np.ndarray]
    changes: tuple[WeightChange, ...]
    seed: int

    def agreement(self, first: str, second: str) -> Agreement:
        """Returns the `Agreement` of two measures by absolute value."""
        sizes = [np.abs(self.measures[name]) for name in (first, second)]
        strongest = [part.argmax(axis=1) for part in sizes]
        return Agreement(first, second, kendall_tau(*sizes), strongest[0] == strongest[1])

    def agreements(self) -> list[Agreement]:
        """Returns the `Agreement` of each pair of measures."""
        return [self.agreement(*names) for names in itertools.combinations(self.measures, 2)]

    def head_agreements(self, measure: str) -> np.ndarray:
        """Returns the mean tau of each head of cross-attention with a measure, `[N, H]`."""
        taus = kendall_tau(self.heads["cross"], np.abs(self.measures[measure]))
        return ignoring_nan(np.nanmean, taus, axis=-1)

    def change(self, kind: str, block: int | None = None) -> WeightChange | None:
        """Returns the change of a kind in one block, or in all blocks, if it was measured."""
        found = (each for each in self.changes if (each.kind, each.block) == (kind, block))
        return next(found, None)

    def as_dict(self) -> dict[str, Any]:
        """Returns all numbers in the types of JSON; NaN becomes None."""
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
                    "standard_deviation": _plain(each.deviation),
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


def _plain(values: Any) -> Any:
    """Returns numbers as nested lists of floats with six digits, and None for NaN."""
    if isinstance(values, np.ndarray) and values.ndim:
        return [_plain(part) for part in values]
    return round(float(values), 6) if math.isfinite(values) else None


#: Maximum number of tokens of a text, end token included. A page with more could not be read.
MAX_TOKENS = 128


def open_explainable(path: str | os.PathLike[str]) -> TrainedModel:
    """Returns the `TrainedModel` of a run; an export is a `UserError`."""
    if is_trained_model(path):
        return TrainedModel.load(path)
    try:
        resolve_version(path)
    except UserError:
        return TrainedModel.load(path)  # reports that this is not a run
    raise UserError(
        "this is an export, a graph without gradients whose weights cannot be changed.",
        where=path,
        fix="Give the run directory from which it was made.",
    )


def explain(
    trained: TrainedModel,
    source: str,
    target: str | None = None,
    draws: int = 100,
    seed: int = 0,
    name: str | None = None,
) -> Explanation:
    """Returns the `Explanation` of a translation.

    Args:
        trained: A `TrainedModel` with source and target, such as a `Transformer`.
        source: A text.
        target: Its translation. Default: the model's own.
        draws: Number of random permutations of the attention weights. Default 100.
        seed: Seed of the permutations, below 2**64. Default 0.
        name: Name of the model. Default: the name of the Keras model.

    Raises:
        UserError: If the model has no source or no attention weights, or if a text is blank, too
            long, or not Unicode.

    ```python
    explanation = explain(TrainedModel.load("runs/dates"), "12. Mai 2021")
    print(explanation.agreement("attention", "gradient").mean)
    ```
    """
    name = name or str(trained.model.name)
    draws = require_positive_integer("draws", draws)
    seed = require_seed("seed", seed)
    _require_explainable(name, trained.model)
    is_own = target is None
    source_ids = _ids("source", source, trained)
    if is_blank(as_tensor([source]))[0]:
        raise UserError("The source is blank: there is nothing to explain.", fix="Give some text.")
    if target is None:
        target = TextModel.of(trained, name=name).translate(source)
    labels = _ids("target", target, trained)
    start = trained.tokenizers.special_ids.start
    read = np.concatenate([[start], labels[:-1]]).astype(np.int32)
    pair = SentencePair(in_full_precision(trained.model), source_ids, read, labels)
    heads = pair.attention_weights()
    probabilities = np.exp(pair.of_labels(pair.log_probabilities(pair.source[None]))[0])
    return Explanation(
        model=name,
        source=source,
        target=target,
        is_own=is_own,
        source_tokens=_tokens(trained.tokenizers.source, pair.source),
        target_tokens=_tokens(trained.tokenizers.target, pair.labels),
        read_tokens=_tokens(trained.tokenizers.target, pair.target),
        probabilities=probabilities,
        heads=heads,
        measures=_measures(pair, heads),
        changes=tuple(_changes(pair, draws, seed)),
        seed=seed,
    )


def _measures(pair: SentencePair, heads: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    measures = {"attention": heads["cross"].mean(axis=(0, 1))}
    if {"encoder", "decoder"} <= set(heads):
        measures["rollout"] = attention_rollout(**heads)
    return {**measures, "gradient": gradient_times_input(pair), "erasure": erasure(pair)}


def _changes(pair: SentencePair, draws: int, seed: int) -> Iterator[WeightChange]:
    """Yields the changes in all blocks at once and, if there are several, in each block."""
    mechanisms = cross_mechanisms(pair.model)
    parts: list[tuple[int | None, list[Any]]] = [(None, mechanisms)] if mechanisms else []
    if len(mechanisms) > 1:
        parts += [(number, [each]) for number, each in enumerate(mechanisms, start=1)]
    for block, changed in parts:
        yield shuffle_weights(pair, changed, block, draws, seed)
        yield uniform_weights(pair, changed, block)


def _ids(side: str, text: str, trained: TrainedModel) -> np.ndarray:
    """Returns the ids of a text, the end id included, if it is Unicode and short enough."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"The {side} is not Unicode at character {error.start + 1}.", fix="Give it in UTF-8."
        ) from error
    tokenizer: Tokenizer = getattr(trained.tokenizers, side)
    ids = tokenizer.tokenize(as_tensor([text]))[0].numpy()
    limit = min(MAX_TOKENS, trained.model.config.max_length)
    if len(ids) >= limit:
        raise UserError(
            f"The {side} must have at most {limit} tokens, end token included; got "
            f"{len(ids) + 1:,}.",
            fix="Give a shorter text.",
        )
    return np.append(ids, tokenizer.special_ids.end).astype(np.int32)


def _tokens(tokenizer: Tokenizer, ids: np.ndarray) -> tuple[str, ...]:
    return tuple(as_text(token) for token in tokenizer.tokens(tf.convert_to_tensor(ids)).numpy())


def _require_explainable(name: str, model: keras.Model) -> None:
    kind = type(model).__name__
    further = {each.name for each in model.inputs} - {"source", "target"}
    fix = "Give a model such as a Transformer."
    if not (hasattr(model, "encode") and hasattr(model, "step")):
        problem = f"source and target; got a {kind}, which does not translate."
    elif not hasattr(model, "attention_weights"):
        problem = f"attention; got a {kind}, which has no `attention_weights`."
    elif further:
        listed, fix = ", ".join(sorted(further)), None
        problem = f"source and target only; got a {kind}, which also reads {listed}."
    else:
        return
    raise UserError(f"expected a model with {problem}", where=name, fix=fix)
