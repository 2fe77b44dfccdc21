"""The searches once more, in plain loops and float64: one row at a time, no TensorFlow.

A model is here a function from the tokens so far (a tuple, without the start token) to the logits
of the next one `[V]` and the attention of that step `[S]`, over the row's own source tokens (None
where there is no source).
"""

import dataclasses
import math

import numpy as np

PADDING, UNKNOWN, START, END = range(4)


@dataclasses.dataclass(frozen=True)
class Rules:
    """What a row may choose: its controls, the tokens that it begins with, and its lengths."""

    controls: tuple = ()
    prefix: tuple = ()
    minimum: int = 1
    maximum: int = 8


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """Tokens, the sum that search ranks by, the model's own sum, and what was attended to."""

    ids: tuple = ()
    total: float = 0.0
    log_probability: float = 0.0
    attention: tuple = ()
    score: float = -math.inf

    @property
    def alignment(self):
        return [int(np.argmax(weights)) for weights in self.attention]


# --- what may follow, and at what price -----------------------------------------------------------


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def forbidden_tokens(ids):
    def control(log_probabilities, _):
        changed = log_probabilities.copy()
        changed[list(ids)] = -math.inf
        return changed

    return control


def no_repeat_ngram(n):
    def control(log_probabilities, ids):
        changed = log_probabilities.copy()
        seen = {ids[i : i + n] for i in range(len(ids) - n + 1)}
        for token in range(len(changed)):
            ngram = (*ids, token)[-n:]
            if ngram in seen and token != END:
                changed[token] = -math.inf
        return changed

    return control


def repetition_penalty(penalty):
    def control(log_probabilities, ids):
        changed = log_probabilities.copy()
        for token in set(ids):
            changed[token] *= penalty
        return changed

    return control


def bounds(
    source_tokens, maximum, minimum=1, maximum_ratio=None, maximum_margin=0, minimum_ratio=0
):
    """A row's least and greatest number of chosen tokens, the end included."""
    if maximum_ratio is not None:
        maximum = min(maximum, math.floor(maximum_ratio * source_tokens + maximum_margin))
    maximum = max(1, maximum)
    minimum = max(minimum, math.floor(minimum_ratio * source_tokens))
    return min(minimum, maximum), maximum


def choices(log_probabilities, ids, rules):
    """The changed log-probabilities `[V]` of what may follow `ids`; -inf for all else."""
    if len(ids) < len(rules.prefix):
        raise ValueError("There is no choice within the prefix.")
    changed = log_probabilities
    for control in rules.controls:
        changed = control(changed, ids)
    changed = changed.copy()
    changed[[PADDING, START]] = -math.inf
    number = len(ids) - len(rules.prefix) + 1
    if number < rules.minimum:
        changed[END] = -math.inf
    if number >= rules.maximum:
        changed[np.arange(len(changed)) != END] = -math.inf
    if np.all(changed == -math.inf):
        changed[END] = log_probabilities[END]
    return changed


def continuations(hypothesis, model, rules):
    """What one step makes of a hypothesis: one hypothesis for each token that may follow."""
    logits, attention = model(hypothesis.ids)
    own = log_softmax(logits)
    t = len(hypothesis.ids)
    if t < len(rules.prefix):
        prices = {rules.prefix[t]: (0.0, 0.0)}
    else:
        changed = choices(own, hypothesis.ids, rules)
        prices = {
            token: (changed[token], own[token])
            for token in range(len(changed))
            if changed[token] > -math.inf
        }
    return [
        Hypothesis(
            (*hypothesis.ids, token),
            hypothesis.total + price,
            hypothesis.log_probability + own_price,
            (*hypothesis.attention, attention),
        )
        for token, (price, own_price) in prices.items()
    ]


# --- scores ---------------------------------------------------------------------------------------


def length_norm(length, length_penalty):
    return ((5 + length) / 6) ** length_penalty


def coverage(attention):
    return sum(math.log(np.clip(total, 1e-6, 1)) for total in np.sum(attention, axis=0))


def finished(hypothesis, rules, length_penalty, coverage_penalty=0.0):
    """The hypothesis with its score."""
    length = len(hypothesis.ids) - len(rules.prefix)
    score = hypothesis.total / length_norm(length, length_penalty)
    if coverage_penalty:
        score += coverage_penalty * coverage(hypothesis.attention)
    return dataclasses.replace(hypothesis, score=score)


def is_over(hypothesis, rules):
    return len(hypothesis.ids) > len(rules.prefix) and hypothesis.ids[-1] == END


def best_first(hypotheses):
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


# --- searches -------------------------------------------------------------------------------------


def follow(ids, model, rules, length_penalty=0.0, coverage_penalty=0.0):
    """The hypothesis of given tokens; an error if one of them was not allowed."""
    hypothesis = Hypothesis()
    for token in ids:
        allowed = {
            next_one.ids[-1]: next_one for next_one in continuations(hypothesis, model, rules)
        }
        hypothesis = allowed[token]
    return finished(hypothesis, rules, length_penalty, coverage_penalty)


def every_hypothesis(model, rules, length_penalty=0.0, coverage_penalty=0.0):
    """All sequences that may be, best first."""

    def grown(hypothesis):
        for next_one in continuations(hypothesis, model, rules):
            if is_over(next_one, rules):
                yield finished(next_one, rules, length_penalty, coverage_penalty)
            else:
                yield from grown(next_one)

    return best_first(grown(Hypothesis()))


def greedy_search(model, rules, length_penalty=0.0):
    """The hypothesis, and how close the closest of its decisions was."""
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
    """The best hypotheses, best first, and how close the closest decision was."""
    live, done, margin = [Hypothesis()], [], math.inf
    while live:
        # Places in order and tokens in order, and `sorted` keeps the order of equals.
        candidates = sorted(
            (next_one for place in live for next_one in continuations(place, model, rules)),
            key=lambda candidate: -candidate.total,
        )
        open_places = beams - len(done)
        taken, left = candidates[:open_places], candidates[open_places:]
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
            hope = live[0].total / length_norm(rules.maximum, length_penalty)
            margin = min(margin, abs(done[n_best - 1].score - hope))
            if done[n_best - 1].score >= hope:
                break
    ranked = [hypothesis.score for hypothesis in done[: n_best + 1]]
    return done[:n_best], min([margin, *-np.diff(ranked)])


def drawing_probabilities(changed, temperature=1.0, top_k=None, top_p=None):
    """The probabilities `[V]` that sampling draws from."""
    changed = changed / temperature
    best = np.argsort(-changed, kind="stable")
    if top_k is not None:
        changed[best[top_k:]] = -math.inf
    probabilities = np.exp(log_softmax(changed))
    if top_p is not None:
        needed = 1 + int(np.sum(np.cumsum(probabilities[best]) < top_p))
        probabilities[best[needed:]] = 0
    return probabilities / probabilities.sum()
