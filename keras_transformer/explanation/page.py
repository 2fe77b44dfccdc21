"""An explanation as a page: one HTML file that needs nothing else."""

import html
import json
import math

import numpy as np

from keras_transformer.explanation.explanation import MEASURES
from keras_transformer.explanation.map_axes import MapAxes, label_of, number
from keras_transformer.explanation.page_style import SCRIPT, STYLE
from keras_transformer.explanation.page_text import (
    ABOUT_AGREEMENT,
    ABOUT_CHANGES,
    ABOUT_HEADS,
    ABOUT_MEASURES,
    ABOUT_TOKENS,
    PAPERS,
)
from keras_transformer.explanation.verdict import judge
from keras_transformer.inference.alignment import split_mark
from keras_transformer.printable import shown

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{sections}
<script type="application/json" id="tokens">{tokens}</script>
<script>{script}</script>
</body>
</html>
"""

_HEADS = {
    "cross": "From target to source",
    "encoder": "Within the source",
    "decoder": "Within the target",
}
#: The lists of tokens at the sides of each kind of weights: who attends, and to what.
_SIDES = {
    "cross": ("written", "source"),
    "encoder": ("source", "source"),
    "decoder": ("written", "read"),
}


def make_explanation_page(explanation):
    """Returns a page with all of an `Explanation` as a string of HTML.

    It loads nothing from anywhere. Its colours follow the light or dark setting of the browser.
    """
    tokens = {
        "source": explanation.source_tokens,
        "written": explanation.target_tokens,
        "read": explanation.read_tokens,
    }
    axes = {
        kind: MapAxes(kind, *sides, *(tokens[side] for side in sides))
        for kind, sides in _SIDES.items()
        if kind in explanation.heads
    }
    labels = {name: [label_of(token) for token in part] for name, part in tokens.items()}
    sections = [
        _pair(explanation),
        _verdict(judge(explanation)),
        *(each.labels() for each in axes.values()),
        _measures(explanation, axes["cross"]),
        _tokens(explanation),
        _agreements(explanation),
        _changes(explanation),
        _heads(explanation, axes),
        f"<h2>Papers</h2>\n{PAPERS}",
    ]
    return _PAGE.format(
        title="Does attention explain this translation?",
        style=STYLE,
        sections="\n".join(sections),
        # What is closed by "</script>" must not hold it.
        tokens=json.dumps(labels).replace("<", "\\u003c"),
        script=SCRIPT,
    )


def _pair(explanation):
    target = "Translation" if explanation.is_own else "Given translation"
    rows = {"Source": explanation.source, target: explanation.target, "Model": explanation.model}
    return (
        "<dl>"
        + "".join(
            f'<dt>{name}</dt><dd dir="auto">{html.escape(shown(text)) or "<i>nothing</i>"}</dd>'
            for name, text in rows.items()
        )
        + "</dl>"
    )


def _verdict(verdict):
    reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in verdict.reasons)
    return (
        f'<div class="verdict {verdict.finding}"><strong>{html.escape(verdict.headline)}</strong>'
        f"<ul>{reasons}</ul></div>\n"
        '<p class="quiet">This is about one sentence, and says nothing about others.</p>'
    )


def _measures(explanation, axes):
    maps = "\n".join(
        axes.figure(values, MEASURES[name]) for name, values in explanation.measures.items()
    )
    title = "<h2>Which source tokens matter</h2>"
    return f'{title}\n{ABOUT_MEASURES}\n<div class="maps large">{maps}</div>'


def _tokens(explanation):
    agreements = [explanation.agreement("attention", each) for each in ("gradient", "erasure")]
    places = range(len(explanation.target_tokens))
    parts = (_token(explanation, agreements, place) for place in places)
    return f"<h2>Token by token</h2>\n{ABOUT_TOKENS}\n" + "\n".join(parts)


def _token(explanation, agreements, place):
    """One target token: what each measure says of each source token."""
    taus = (f"{MEASURES[each.second]} {_tau(each.taus[place])}" for each in agreements)
    facts = [f"probability {explanation.probabilities[place]:.2f}", f"tau with {', '.join(taus)}"]
    shuffled = explanation.change("shuffled")
    if shuffled is not None:
        facts.append(f"shuffling moves {shuffled.total_variation[:, place].mean():.0%}")
    names = explanation.measures
    head = "".join(f'<th scope="col">{MEASURES[name]}</th>' for name in names)
    largest = {name: abs(names[name][place]).max() or 1.0 for name in names}
    rows = "".join(
        f'<tr><th scope="row">{_marked(token)}</th>'
        + "".join(_bar(names[name][place, column], largest[name]) for name in names)
        + "</tr>"
        for column, token in enumerate(explanation.source_tokens)
    )
    return (
        f'<details class="token" name="token"{" open" if place == 0 else ""}>'
        f"<summary><bdi>{_marked(explanation.target_tokens[place])}</bdi>"
        f'<span class="quiet">{" · ".join(facts)}</span></summary>\n'
        f'<table class="bars"><thead><tr><th scope="col">source</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></details>"
    )


def _bar(value, largest):
    side = ' class="below"' if value < 0 else ""
    return f'<td{side} style="--bar:{abs(value) / largest:.0%}">{number(value, largest)}</td>'


def _agreements(explanation):
    rows = "".join(
        f'<tr><th scope="row">{MEASURES[each.first]} and {MEASURES[each.second]}</th>'
        f"<td>{_tau(each.mean)}</td><td>± {_tau(each.spread)}</td>"
        f"<td>{_tau(np.fmin.reduce(each.taus))}</td>"
        f"<td>{_tau(np.fmax.reduce(each.taus))}</td>"
        f"<td>{each.is_same.sum()} of {len(each.is_same)}</td></tr>"
        for each in explanation.agreements()
    )
    return (
        f'<h2>Do they agree?</h2>\n{ABOUT_AGREEMENT}\n<div class="wide"><table><thead><tr>'
        '<th scope="col">measures</th><th scope="col">tau</th><th scope="col">spread</th>'
        '<th scope="col">least</th><th scope="col">most</th>'
        '<th scope="col">same strongest</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _changes(explanation):
    title = "<h2>Does the model need its weights?</h2>"
    if not explanation.changes:
        return f"{title}\n<p>Not measured: its cross-attention has no weights to exchange.</p>"
    rows = "".join(_change(each) for each in explanation.changes)
    draws = len(explanation.changes[0].total_variation)
    return (
        f'{title}\n{ABOUT_CHANGES}\n<div class="wide"><table><caption>{draws:,} permutations, '
        f"seed {explanation.seed}; in brackets the least and the most of them</caption><thead><tr>"
        '<th scope="col">weights</th><th scope="col">blocks</th>'
        '<th scope="col">probability moved</th><th scope="col">divergence in bits</th>'
        f'<th scope="col">other token</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _change(change):
    moved = change.total_variation.mean(axis=1)
    bounds = f" ({moved.min():.0%}–{moved.max():.0%})" if len(moved) > 1 else ""
    return (
        f'<tr><th scope="row">{change.kind}</th><td>{change.block or "all"}</td>'
        f"<td>{moved.mean():.0%}{bounds}</td><td>{change.divergence.mean():.2f}</td>"
        f"<td>{change.is_other.mean():.0%}</td></tr>"
    )


def _heads(explanation, axes):
    taus = explanation.head_agreements("erasure")
    parts = []
    for kind in axes:
        for block, heads in enumerate(explanation.heads[kind]):
            maps = []
            for head, weights in enumerate(heads):
                is_cross = kind == "cross"
                note = f" · tau with erasure {_tau(taus[block, head])}" if is_cross else ""
                maps.append(axes[kind].figure(weights, f"head {head + 1}", note))
            parts.append(
                f"<details><summary>{_HEADS[kind]}, block {block + 1}</summary>\n"
                f'<div class="maps">{"".join(maps)}</div></details>'
            )
    return f"<h2>Every head</h2>\n{ABOUT_HEADS}\n" + "\n".join(parts)


def _marked(token):
    mark, text = split_mark(token)
    return (f"<i>{html.escape(mark)}</i>" if mark else "") + html.escape(text)


def _tau(value):
    return "–" if math.isnan(value) else f"{value:.2f}"
