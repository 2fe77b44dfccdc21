"""Explanations: a translation measured in several ways, and a verdict on its attention."""

import dataclasses
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer, require_seed
from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.explain.measurements import (
    SentencePair,
    WeightChange,
    attention_rollout,
    cross_mechanisms,
    erasure,
    gradient_times_input,
    in_full_precision,
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


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> np.ndarray:
    """Returns Kendall's tau-b along the last axis: 1 for the same order, -1 for the reverse.

    Kendall 1945, "The Treatment of Ties in Ranking Problems": the number of pairs of positions in
    the same order, minus the number of pairs in opposite order, divided by the geometric mean of
    the numbers of pairs without a tie on each side. If a side consists of ties only, tau is NaN.

    Args:
        first: Numbers `[..., N]`.
        second: Numbers `[..., N]`. The axes before the last are broadcast.
    """
    first, second = _orders(first), _orders(second)
    without_ties = np.sqrt(np.abs(first).sum(axis=-1) * np.abs(second).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return (first * second).sum(axis=-1) / without_ties


def _orders(values: npt.ArrayLike) -> np.ndarray:
    """Returns the order of each pair of positions as -1, 0 or 1: `[..., N · (N - 1) / 2]`."""
    values = np.asarray(values, np.float64)
    left, right = np.triu_indices(values.shape[-1], k=1)
    return np.sign(values[..., right] - values[..., left])


@dataclasses.dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of two measures on which source tokens matter.

    Attributes:
        first: Name of a measure, such as "attention".
        second: Name of another measure.
        taus: Kendall's tau-b `[T]` for each target token; NaN where there is no order.
        mean: Mean of the taus.
        deviation: Standard deviation of the taus.
        is_same: Boolean `[T]`, whether both have the same strongest source token.
    """

    first: str
    second: str
    taus: np.ndarray
    mean: float
    deviation: float
    is_same: np.ndarray


def ignoring_nan(reduce: Callable[..., Any], values: np.ndarray, **options: Any) -> Any:
    """Returns `reduce(values, **options)` without the warning that all values are NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return reduce(values, **options)


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
        read_tokens: Readable tokens that the decoder reads: the start token, then the labels.
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
        sizes = np.abs(self.measures[first]), np.abs(self.measures[second])
        taus, (one, other) = kendall_tau(*sizes), (part.argmax(axis=1) for part in sizes)
        mean, deviation = (float(ignoring_nan(each, taus)) for each in (np.nanmean, np.nanstd))
        return Agreement(first, second, taus, mean, deviation, one == other)

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
        texts = ("model", "source", "target", "is_own", "source_tokens", "target_tokens")
        return {
            **{name: getattr(self, name) for name in texts},
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
        trained: A model with source, target and attention weights, such as a `Transformer`.
        source: A text.
        target: Its translation. Default: the model's own.
        draws: Number of random permutations of the attention weights.
        seed: Seed of the permutations, below 2**64.
        name: Name of the model. Default: the name of the Keras model.

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
    measures = {"attention": heads["cross"].mean(axis=(0, 1))}
    if {"encoder", "decoder"} <= set(heads):
        measures["rollout"] = attention_rollout(**heads)
    measures |= {"gradient": gradient_times_input(pair), "erasure": erasure(pair)}
    return Explanation(
        model=name,
        source=source,
        target=target,
        is_own=is_own,
        source_tokens=_tokens(trained.tokenizers.source, pair.source),
        target_tokens=_tokens(trained.tokenizers.target, pair.labels),
        read_tokens=_tokens(trained.tokenizers.target, pair.target),
        probabilities=np.exp(pair.of_labels(pair.log_probabilities(source_ids[None]))[0]),
        heads=heads,
        measures=measures,
        changes=tuple(_changes(pair, draws, seed)),
        seed=seed,
    )


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
        problem = f"The {side} is not Unicode at character {error.start + 1}."
        raise UserError(problem, fix="Give it in UTF-8.") from error
    tokenizer: Tokenizer = getattr(trained.tokenizers, side)
    ids = tokenizer.tokenize(as_tensor([text]))[0].numpy()
    limit = min(MAX_TOKENS, trained.model.config.max_length)
    if len(ids) >= limit:
        problem = f"The {side} must have at most {limit} tokens, end token included; got "
        raise UserError(f"{problem}{len(ids) + 1:,}.", fix="Give a shorter text.")
    return np.append(ids, tokenizer.special_ids.end).astype(np.int32)


def _tokens(tokenizer: Tokenizer, ids: np.ndarray) -> tuple[str, ...]:
    return tuple(map(as_text, tokenizer.tokens(tf.convert_to_tensor(ids)).numpy()))


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


# No paper gives thresholds. These were chosen because they can be described in words.
#: Mean tau from which measures agree well: three of four pairs of tokens are in the same order.
AGREE_WELL = 0.5
#: Mean tau below which measures hardly agree: fewer than three of five pairs are.
AGREE_LITTLE = 0.2
#: Mean total variation below which shuffled weights hardly change the output: a tenth of the
#: probability has moved to other tokens.
HARDLY_CHANGED = 0.1

HEADLINES = {
    "unneeded": "Do not read these weights as an explanation: the model does not need them.",
    "apart": "Do not read these weights as an explanation: other measures hardly agree with them.",
    "partly": "These weights are a hint at best: other measures agree with them in part.",
    "fair": "For this sentence the weights are a fair explanation: other measures agree with them.",
    "open": "This sentence does not show whether the weights explain anything.",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Interpretation of an `Explanation`.

    Attributes:
        finding: A key of `HEADLINES`.
        headline: The finding in one sentence.
        reasons: Sentences with the numbers, the most important first.
    """

    finding: str
    headline: str
    reasons: tuple[str, ...]


def judge(explanation: Explanation) -> Verdict:
    """Returns the `Verdict` on an `Explanation`.

    Weights that can be shuffled without changing the output explain nothing (`HARDLY_CHANGED`).
    Otherwise the mean of two taus decides, with gradients and with erasure (`AGREE_WELL`,
    `AGREE_LITTLE`). In a short sentence two random orders often agree as much; then the measures
    hardly agree.
    """
    length = len(explanation.source_tokens)
    by_chance = chance_deviation(length)
    gradient = explanation.agreement("attention", "gradient")
    erasure = explanation.agreement("attention", "erasure")
    others = explanation.agreement("gradient", "erasure")
    shuffled = explanation.change("shuffled")
    tau = (gradient.mean + erasure.mean) / 2
    reasons = [
        f"In the order of the source tokens, attention and {MEASURES['gradient']} "
        f"{describe_tau(gradient.mean)}; attention and erasure {describe_tau(erasure.mean)}.",
        "Attention and erasure have the same strongest source token for "
        f"{erasure.is_same.sum()} of {len(erasure.is_same)} target tokens. Tau also counts the "
        "order of tokens that hardly matter.",
    ]
    is_unneeded = False
    if shuffled is not None:
        moved = float(shuffled.total_variation.mean())
        is_unneeded = moved < HARDLY_CHANGED
        result = "the model relies on its attention weights"
        if is_unneeded:
            result = "the output hardly depends on the attention weights"
        reasons.append(
            f"Shuffled weights move {moved:.0%} of the probability to other tokens and change the "
            f"most likely token in {shuffled.is_other.mean():.0%} of the cases: {result}."
        )
    warning = ", so neither of them can be trusted alone" if others.mean < AGREE_LITTLE else ""
    reasons += [
        f"Gradients and erasure {describe_tau(others.mean)}{warning}.",
        f"For {length} source tokens, two random orders have a tau between "
        f"-{by_chance:.2f} and {by_chance:.2f} in about two of three cases.",
    ]
    if is_unneeded:
        finding = "unneeded"
    elif math.isnan(tau):
        finding = "open"
    elif tau < max(AGREE_LITTLE, by_chance):
        finding = "apart"
    else:
        finding = "partly" if tau < AGREE_WELL else "fair"
    return Verdict(finding, HEADLINES[finding], tuple(reasons))


def chance_deviation(length: int) -> float:
    """Returns the standard deviation of tau of two random orders without ties (Kendall 1938)."""
    if length < 2:
        return math.nan
    return math.sqrt(2 * (2 * length + 5) / (9 * length * (length - 1)))


def describe_tau(tau: float) -> str:
    """Returns a mean tau in words."""
    if math.isnan(tau):
        return "cannot be compared, because there is no order"
    if tau < AGREE_LITTLE:
        return f"hardly agree (tau {tau:.2f})"
    return f"agree {'in part' if tau < AGREE_WELL else 'well'} (tau {tau:.2f})"
