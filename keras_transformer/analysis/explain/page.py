"""An explanation as a page: one HTML file that needs nothing else."""

import base64
import html
import json
import math
import struct
import unicodedata
import zlib

import numpy as np

from keras_transformer._utils.console import shown
from keras_transformer.analysis.explain.explanation import MEASURES
from keras_transformer.analysis.explain.verdict import (
    AGREE_LITTLE,
    AGREE_WELL,
    HARDLY_CHANGED,
    judge,
)
from keras_transformer.inference.attention_maps import split_mark

_CELL = 18
_LONGEST_LABEL = 12
_MARGIN = 5


class MapAxes:
    """The labels of all maps of one kind, drawn once and used by each.

    Args:
        name: of the kind, for references within the page.
        rows, columns: names of lists of tokens.
        row_tokens, column_tokens: these lists.
    """

    def __init__(self, name, rows, columns, row_tokens, column_tokens):
        self.name, self.rows, self.columns = name, rows, columns
        self.row_labels = [short_label(token) for token in row_tokens]
        self.column_labels = [short_label(token) for token in column_tokens]
        self.left = max(map(label_width, self.row_labels)) + _MARGIN
        self.top = max(map(label_width, self.column_labels)) + _MARGIN
        self.width = _CELL * len(column_tokens)
        self.height = _CELL * len(row_tokens)

    def labels(self):
        """An invisible drawing that holds the labels."""
        middle = _CELL / 2 + 4
        beside = (
            f'<text x="{self.left - _MARGIN}" y="{self.top + _CELL * number + middle:g}" '
            f'text-anchor="end">{html.escape(label)}</text>'
            for number, label in enumerate(self.row_labels)
        )
        above = (
            f'<text transform="translate({self.left + _CELL * number + middle:g} '
            f'{self.top - _MARGIN}) rotate(-90)">{html.escape(label)}</text>'
            for number, label in enumerate(self.column_labels)
        )
        return (
            f'<svg style="display:none"><defs><g id="labels-{self.name}" font-size="11">'
            f"{''.join(beside)}{''.join(above)}</g></defs></svg>"
        )

    def figure(self, values, title, note=""):
        """A map of values `[T, S]` with its title and a note below."""
        largest = float(abs(values).max())
        caption = html.escape(f"{title} · strongest {number(largest, largest)}{note}")
        place = f'x="{self.left}" y="{self.top}" width="{self.width}" height="{self.height}"'
        # Few tokens would be drawn as wide as many.
        widest = round(1.3 * (self.left + self.width))
        return (
            f'<figure style="max-width:{widest}px">\n'
            f'<svg viewBox="0 0 {self.left + self.width + 1} {self.top + self.height + 1}" '
            f'tabindex="0" role="img" aria-label="{html.escape(title)}" data-rows="{self.rows}" '
            f'data-columns="{self.columns}" data-largest="{largest:.6g}" '
            f'data-digits="{digits(largest)}">'
            f'<use href="#labels-{self.name}"/>'
            f'<image preserveAspectRatio="none" {place} href="{heat_map(values)}"/>'
            f'<rect class="frame" {place}/>'
            f'<rect class="cell" width="{_CELL}" height="{_CELL}"/></svg>\n'
            f"<figcaption>{caption}</figcaption><output></output>\n</figure>"
        )


def digits(largest):
    """How many digits after the point show two that count, of a number and of smaller ones.

    >>> digits(11.5), digits(0.024)
    (2, 3)
    """
    return 2 if largest <= 0 else min(max(2, 1 - math.floor(math.log10(largest))), 9)


def number(value, largest):
    """A number with as many digits as suit the largest beside it; nothing is less than nothing.

    >>> number(-0.0001, 1.0), number(-0.0123, 0.024)
    ('0.00', '-0.012')
    """
    text = f"{value:.{digits(largest)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def label_of(token):
    """What is shown of a token."""
    return "".join(split_mark(token))


def short_label(token):
    """What is shown of a token where there is little room.

    >>> short_label("▁internationalisation")
    '␣internatio…'
    """
    label = label_of(token)
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def label_width(label):
    """About how many dots a label is wide."""
    return sum(12 if unicodedata.east_asian_width(letter) in "WF" else 8 for letter in label)


#: A blue and an orange that can be seen on white and on black.
ABOVE, BELOW = (38, 120, 222), (222, 106, 30)


def heat_map(values):
    """Returns numbers `[T, S]` as the address of a picture with a dot for each.

    The larger a number, the less a dot is transparent, so that pictures suit light and dark pages;
    the largest is not transparent at all. Numbers below 0 are orange, others blue.

    >>> heat_map(np.array([[0.5, -1.0]])).startswith("data:image/png;base64,")
    True
    """
    sizes = np.abs(values)
    dots = np.empty((*values.shape, 4), np.uint8)
    dots[..., :3] = np.where((values < 0)[..., None], BELOW, ABOVE)
    dots[..., 3] = np.round(255 * sizes / (sizes.max() or 1.0))
    return "data:image/png;base64," + base64.b64encode(_png(dots)).decode()


def _png(dots):
    """The bytes of a PNG file of dots `[height, width, 4]`: red, green, blue, opacity."""
    height, width, _ = dots.shape
    # Eight bits, colors with opacity; each row begins with its filter: none.
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    rows = np.pad(dots.reshape(height, -1), ((0, 0), (1, 0))).tobytes()
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


STYLE = """
:root { color-scheme: light dark; --above: 38 120 222; --below: 222 106 30; --line: #8884;
  --quiet: #5c6370; --panel: #8881; }
@media (prefers-color-scheme: dark) { :root { --quiet: #a9b1bd; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 62rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.5rem; margin: .5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
p, li { max-width: 46rem; }
.quiet, figcaption, caption, output { color: var(--quiet); font-size: .85rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
.verdict { border-left: .35rem solid rgb(var(--above)); background: var(--panel);
  padding: .8rem 1rem; margin: 1.2rem 0; }
.verdict.unneeded, .verdict.apart { border-color: rgb(var(--below)); }
.verdict.open { border-color: var(--quiet); }
.verdict strong { font-size: 1.1rem; }
.verdict ul { margin: .5rem 0 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: start; padding-bottom: .3rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: end; }
th { font-weight: 600; }
tbody th, thead th:first-child { text-align: start; font-weight: normal; }
.bars { width: 100%; table-layout: fixed; }
.bars th:first-child { width: 24%; }
.bars tbody th { overflow-wrap: anywhere; }
.bars td { --color: var(--above); border-left: .3rem solid Canvas;
  background: linear-gradient(90deg, rgb(var(--color) / .45) var(--bar), transparent 0); }
.bars td.below { --color: var(--below); }
details { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .45rem 0; }
details[open] > summary { font-weight: 600; }
summary .quiet { font-weight: normal; }
.token summary { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }
.token summary::before { content: "▸"; color: var(--quiet); margin-right: -.5rem; }
.token[open] summary::before { content: "▾"; }
.token summary bdi { min-width: 6rem; text-align: left; }
.maps { display: grid; gap: 1.2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); }
.maps.large { grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; fill: currentColor; }
svg image { image-rendering: pixelated; }
svg .frame { fill: none; stroke: var(--line); }
svg .cell { fill: none; stroke: currentColor; stroke-width: 1.5; visibility: hidden; }
svg:focus-visible { outline: 2px solid rgb(var(--above)); }
output { display: block; min-height: 1.5em; overflow-wrap: anywhere; }
i { font-style: normal; color: var(--quiet); }
.key b { color: rgb(var(--above)); } .key b + b { color: rgb(var(--below)); }
@media (max-width: 40rem) { body { font-size: 15px; padding: .7rem; }
  th, td { padding: .2rem .3rem; } .bars { font-size: .75rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
"""

# Without it the maps are there all the same; with it, a cell tells its value. A dot's opacity is
# its size, and its color the sign.
SCRIPT = """
const tokens = JSON.parse(document.getElementById("tokens").textContent);
for (const map of document.querySelectorAll("svg[data-rows]")) {
  const picture = map.querySelector("image"), cell = map.querySelector(".cell");
  const said = map.parentElement.querySelector("output");
  const rows = tokens[map.dataset.rows], columns = tokens[map.dataset.columns];
  let row = 0, column = 0, dots = null;
  const read = async () => {
    const image = new Image();
    image.src = picture.getAttribute("href");
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [columns.length, rows.length];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, columns.length, rows.length).data;
  };
  const show = async () => {
    const [x, y, width, height] = ["x", "y", "width", "height"].map(
      name => Number(picture.getAttribute(name)));
    cell.setAttribute("x", x + column * width / columns.length);
    cell.setAttribute("y", y + row * height / rows.length);
    cell.style.visibility = "visible";
    dots ??= await read();
    const at = 4 * (row * columns.length + column);
    const sign = dots[at] > dots[at + 2] ? "-" : "";
    const value = (dots[at + 3] / 255 * map.dataset.largest).toFixed(map.dataset.digits);
    // Each between marks that keep a script from right to left in its place.
    const [from, to] = [rows[row], columns[column]].map(token => `\\u2068${token}\\u2069`);
    said.textContent = `${from} \\u2190 ${to}: ${sign}${value}`;
  };
  const hide = () => { cell.style.visibility = "hidden"; said.textContent = ""; };
  const point = event => {
    const box = picture.getBoundingClientRect();
    const place = (share, count) => Math.floor(share * count);
    const [r, c] = [place((event.clientY - box.top) / box.height, rows.length),
      place((event.clientX - box.left) / box.width, columns.length)];
    if (r < 0 || c < 0 || r >= rows.length || c >= columns.length) return hide();
    [row, column] = [r, c];
    show();
  };
  map.addEventListener("pointermove", point);
  map.addEventListener("pointerdown", point);  // a finger that does not move
  map.addEventListener("pointerleave", hide);
  map.addEventListener("focus", show);
  map.addEventListener("blur", hide);
  map.addEventListener("keydown", event => {
    const step = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    }[event.key];
    if (!step) return;
    event.preventDefault();
    row = Math.min(Math.max(row + step[0], 0), rows.length - 1);
    column = Math.min(Math.max(column + step[1], 0), columns.length - 1);
    show();
  });
}
"""


ABOUT_MEASURES = """<p>For every token of the target, several answers to the question which tokens
of the source it came from. The stronger the color, the more; point at a map, or go through it with
the arrow keys, for values. <span class="key"><b>Blue</b> speaks for the token, <b>orange</b>
against it.</span></p>
<ul>
<li><b>Attention</b>: the weights of cross-attention, the mean of all blocks and heads.</li>
<li><b>Rollout</b>: attention followed through all blocks back to the source tokens (Abnar &amp;
Zuidema 2020); of models alone that attend in encoder and decoder.</li>
<li><b>Gradient × input</b>: the gradient of the token's log-probability, times the source token's
embedding, in nats (Shrikumar et al. 2016). It is small where the model is certain, and then only
its order counts.</li>
<li><b>Erasure</b>: by how many nats the log-probability falls when the source token is taken away
(Li et al. 2016). It is measured, not estimated, but takes away one token at a time.</li>
</ul>"""

ABOUT_TOKENS = """<p>Open a token of the target for its numbers. Beside it stand its probability,
the agreement of attention with two other measures, and how much of the probability shuffled weights
move, of which more below.</p>"""

ABOUT_AGREEMENT = f"""<p>Kendall's tau-b of two orders of the source tokens, by the size of each
measure without its sign: 1 for the same order, 0 for no relation, -1 for the reverse. Shown are the
mean over the target tokens and its standard deviation, and for how many of them both measures have
the same strongest source token. From {AGREE_WELL:g} on we say that two
measures agree well, below {AGREE_LITTLE:g} that they agree little. No paper sets such bounds: these
are three of four and three of five pairs of tokens in the same order. Of a short sentence a tau
that two random orders often reach counts as little, too.</p>"""

ABOUT_CHANGES = f"""<p>If the output stays the same with other weights, they do not tell what it
came from (Jain &amp; Wallace 2019). <b>Shuffled</b>: each head and target token attends as sharply
as before, but to randomly chosen tokens. <b>Uniform</b>: to all alike, the baseline of Wiegreffe
&amp; Pinter 2019, who train a model anew for it; here the trained one is run with equal weights,
which only tells whether it relies on its own. The probability moved is the total variation distance
between the distributions of the next token before and after; below {HARDLY_CHANGED:.0%} we call it
hardly changed, a bound of ours, too.</p>"""

ABOUT_HEADS = """<p>Each row is a token that attends, named by what is written there; each column
one that is attended to. In each map the strongest color is its own strongest weight.</p>"""

PAPERS = """<ul>
<li>Jain &amp; Wallace 2019, “Attention is not Explanation”, NAACL.</li>
<li>Wiegreffe &amp; Pinter 2019, “Attention is not not Explanation”, EMNLP.</li>
<li>Abnar &amp; Zuidema 2020, “Quantifying Attention Flow in Transformers”, ACL.</li>
<li>Shrikumar et al. 2016, “Not Just a Black Box: Learning Important Features Through Propagating
Activation Differences”.</li>
<li>Li, Monroe &amp; Jurafsky 2016, “Understanding Neural Networks through Representation
Erasure”.</li>
<li>Kendall 1945, “The Treatment of Ties in Ranking Problems”, Biometrika 33.</li>
</ul>"""


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

    It loads nothing from anywhere. Its colors follow the light or dark setting of the browser.
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
