"""Reference implementation of the searches in plain loops and float64, one row at a time.

It uses no TensorFlow and no code of the package. A model is here a function from the tokens so far
(a tuple, without the start id) to the logits of the next token `[V]` and the attention of that step
`[S]` over the row's own source tokens (None without a source).
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

PADDING, UNKNOWN, START, END = range(4)


class Special(NamedTuple):
    """Special ids of a model."""

    padding: int = PADDING
    unknown: int = UNKNOWN
    start: int = START
    end: int = END


DEFAULT = Special()


@dataclasses.dataclass(frozen=True)
class Rules:
    """Constraints, forced prefix, limits of the length and special ids of a row."""

    constraints: tuple = ()
    prefix: tuple = ()
    minimum: int = 1
    maximum: int = 8
    special: Special = DEFAULT


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """Tokens, the sum that a search ranks by, the model's own sum, and the attention."""

    ids: tuple = ()
    total: float = 0.0
    log_probability: float = 0.0
    attention: tuple = ()
    score: float = -math.inf

    @property
    def alignment(self):
        return [int(np.argmax(weights)) for weights in self.attention]


# --- possible next tokens and their costs ---------------------------------------------------------


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def forbidden_tokens(ids):
    def constraint(log_probabilities, _):
        changed = log_probabilities.copy()
        changed[list(ids)] = -math.inf
        return changed

    return constraint


def no_repeat_ngram(n, end=END):
    def constraint(log_probabilities, ids):
        changed = log_probabilities.copy()
        seen = {ids[i : i + n] for i in range(len(ids) - n + 1)}
        for token in range(len(changed)):
            ngram = (*ids, token)[-n:]
            if ngram in seen and token != end:
                changed[token] = -math.inf
        return changed

    return constraint


def repetition_penalty(penalty):
    def constraint(log_probabilities, ids):
        changed = log_probabilities.copy()
        for token in set(ids):
            changed[token] *= penalty
        return changed

    return constraint


def bounds(
    source_tokens, maximum, minimum=1, maximum_ratio=None, maximum_margin=0, minimum_ratio=0
):
    """Returns the minimum and maximum number of chosen tokens of a row, end id included."""
    if maximum_ratio is not None:
        maximum = min(maximum, math.floor(maximum_ratio * source_tokens + maximum_margin))
    maximum = max(1, maximum)
    minimum = max(minimum, math.floor(minimum_ratio * source_tokens))
    return min(minimum, maximum), maximum


def choices(log_probabilities, ids, rules):
    """Returns the changed log-probabilities `[V]` of tokens that may follow `ids`, else -inf."""
    if len(ids) < len(rules.prefix):
        raise ValueError("There is no choice within the prefix.")
    special = rules.special
    changed = log_probabilities
    for constraint in rules.constraints:
        changed = constraint(changed, ids)
    changed = changed.copy()
    for token in (special.padding, special.start):
        if token != special.end:
            changed[token] = -math.inf
    number = len(ids) - len(rules.prefix) + 1
    if number < rules.minimum:
        changed[special.end] = -math.inf
    if number >= rules.maximum:
        changed[:] = -math.inf
    if np.all(changed == -math.inf):
        changed[special.end] = log_probabilities[special.end]  # forced, so no constraint changes it
    return changed


def continuations(hypothesis, model, rules):
    """Returns a hypothesis for each token that may follow."""
    logits, attention = model(hypothesis.ids)
    own = log_softmax(logits)
    t = len(hypothesis.ids)
    if t < len(rules.prefix):
        costs = {rules.prefix[t]: (0.0, 0.0)}
    else:
        changed = choices(own, hypothesis.ids, rules)
        costs = {
            token: (changed[token], own[token])
            for token in range(len(changed))
            if changed[token] > -math.inf
        }
    return [
        Hypothesis(
            (*hypothesis.ids, token),
            hypothesis.total + cost,
            hypothesis.log_probability + own_cost,
            (*hypothesis.attention, attention),
        )
        for token, (cost, own_cost) in costs.items()
    ]


# --- scores ---------------------------------------------------------------------------------------


def length_norm(length, length_penalty):
    return ((5 + length) / 6) ** length_penalty


def coverage(attention):
    return sum(math.log(np.clip(total, 1e-6, 1)) for total in np.sum(attention, axis=0))


def finished(hypothesis, rules, length_penalty, coverage_penalty=0.0):
    """Returns the hypothesis with its score."""
    length = len(hypothesis.ids) - len(rules.prefix)
    score = hypothesis.total / length_norm(length, length_penalty)
    if coverage_penalty:
        score += coverage_penalty * coverage(hypothesis.attention)
    return dataclasses.replace(hypothesis, score=score)


def is_over(hypothesis, rules):
    return len(hypothesis.ids) > len(rules.prefix) and hypothesis.ids[-1] == rules.special.end


def best_first(hypotheses):
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


# --- searches -------------------------------------------------------------------------------------


def follow(ids, model, rules, length_penalty=0.0, coverage_penalty=0.0):
    """Returns the hypothesis of given tokens; a KeyError if one of them is not allowed."""
    hypothesis = Hypothesis()
    for token in ids:
        allowed = {
            next_one.ids[-1]: next_one for next_one in continuations(hypothesis, model, rules)
        }
        hypothesis = allowed[token]
    return finished(hypothesis, rules, length_penalty, coverage_penalty)


def every_hypothesis(model, rules, length_penalty=0.0, coverage_penalty=0.0):
    """Returns all possible hypotheses, best first."""

    def grown(hypothesis):
        for next_one in continuations(hypothesis, model, rules):
            if is_over(next_one, rules):
                yield finished(next_one, rules, length_penalty, coverage_penalty)
            else:
                yield from grown(next_one)

    return best_first(grown(Hypothesis()))


def greedy_search(model, rules, length_penalty=0.0):
    """Returns the hypothesis and the margin of its closest decision."""
    hypothesis, margin = Hypothesis(), math.inf
    while not is_over(hypothesis, rules):
        # `sorted` keeps the order of equals: the lowest id first.
        best, *others = sorted(
            continuations(hypothesis, model, rules), key=lambda next_one: -next_one.total
        )
        if others:
            margin = min(margin, best.total - others[0].total)
        hypothesis = best
    return finished(hypothesis, rules, length_penalty), margin


def beam_search(
    model, rules, beams, n_best=1, length_penalty=0.0, coverage_penalty=0.0, stops_early=True
):
    """Returns the best hypotheses, best first, and the margin of the closest decision."""
    live, done, margin = [Hypothesis()], [], math.inf
    while live:
        # Beams in order and tokens in order, and `sorted` keeps the order of equals.
        candidates = sorted(
            (next_one for parent in live for next_one in continuations(parent, model, rules)),
            key=lambda candidate: -candidate.total,
        )
        free_beams = beams - len(done)
        taken, left = candidates[:free_beams], candidates[free_beams:]
        if left:
            margin = min(margin, taken[-1].total - left[0].total)
        live = []
        for candidate in taken:
            if is_over(candidate, rules):
                done.append(finished(candidate, rules, length_penalty, coverage_penalty))
            else:
                live.append(candidate)
        done = best_first(done)
        if stops_early and live and len(done) >= n_best:
            reachable = live[0].total / length_norm(rules.maximum, length_penalty)
            margin = min(margin, abs(done[n_best - 1].score - reachable))
            if done[n_best - 1].score >= reachable:
                break
    ranked = [hypothesis.score for hypothesis in done[: n_best + 1]]
    return done[:n_best], min([margin, *-np.diff(ranked)])


def drawing_probabilities(changed, temperature=1.0, top_k=None, top_p=None):
    """Returns the probabilities `[V]` that sampling draws from."""
    changed = changed / temperature
    best = np.argsort(-changed, kind="stable")
    if top_k is not None:
        changed[best[top_k:]] = -math.inf
    probabilities = np.exp(log_softmax(changed))
    if top_p is not None:
        needed = 1 + int(np.sum(np.cumsum(probabilities[best]) < top_p))
        probabilities[best[needed:]] = 0
    return probabilities / probabilities.sum()
