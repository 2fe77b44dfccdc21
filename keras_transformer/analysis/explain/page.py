"""The page of an explanation: one HTML file that loads nothing else."""

import base64
import math
import pathlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer._utils.console import shown
from keras_transformer._utils.html import render_page
from keras_transformer.analysis.explain.explanation import (
    AGREE_LITTLE,
    AGREE_WELL,
    HARDLY_CHANGED,
    MEASURES,
    Agreement,
    Explanation,
    judge,
)
from keras_transformer.analysis.explain.measurements import WeightChange
from keras_transformer.inference.attention_maps import label_of, split_mark

_TEMPLATE = pathlib.Path(__file__).with_name("page.html.jinja")

# Title of each kind of weights; names of the tokens that attend, and of those attended to.
_KINDS = {
    "cross": ("From target to source", "written", "source"),
    "encoder": ("Within the source", "source", "source"),
    "decoder": ("Within the target", "written", "read"),
}
# In maps: size of a cell, space between labels and map, and maximum length of a label.
_CELL, _MARGIN, _LONGEST_LABEL = 18, 5, 12


def make_explanation_page(explanation: Explanation) -> str:
    """Returns a page with all parts of an `Explanation`, as HTML that loads nothing else."""
    tokens = {
        "source": explanation.source_tokens,
        "written": explanation.target_tokens,
        "read": explanation.read_tokens,
    }
    axes = {kind: _map_axes(kind, tokens) for kind in _KINDS if kind in explanation.heads}
    target = "Translation" if explanation.is_own else "Given translation"
    texts = {"Source": explanation.source, target: explanation.target, "Model": explanation.model}
    draws = max((len(each.is_other) for each in explanation.changes), default=0)
    return render_page(
        _TEMPLATE,
        split_mark=split_mark,
        cell_size=_CELL,
        margin=_MARGIN,
        texts={name: shown(text) for name, text in texts.items()},
        verdict=judge(explanation),
        axes=axes,
        measure_maps=[
            _draw_map(axes["cross"], values, MEASURES[name])
            for name, values in explanation.measures.items()
        ],
        measure_titles=[MEASURES[name] for name in explanation.measures],
        target_tokens=list(_target_tokens(explanation)),
        agree_well=f"{AGREE_WELL:g}",
        agree_little=f"{AGREE_LITTLE:g}",
        agreements=[_agreement_row(each) for each in explanation.agreements()],
        hardly_changed=f"{HARDLY_CHANGED:.0%}",
        draws=f"{draws:,}",
        seed=explanation.seed,
        changes=[_change_row(each) for each in explanation.changes],
        blocks=list(_blocks(explanation, axes)),
        tokens={name: list(map("".join, map(split_mark, part))) for name, part in tokens.items()},
    )


def _target_tokens(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """Yields each target token with its facts and its bars for each source token."""
    agreements = [explanation.agreement("attention", each) for each in ("gradient", "erasure")]
    shuffled = explanation.change("shuffled")
    for position, token in enumerate(explanation.target_tokens):
        taus = (f"{MEASURES[each.second]} {_tau(each.taus[position])}" for each in agreements)
        facts = [f"probability {explanation.probabilities[position]:.2f}"]
        facts.append(f"tau with {', '.join(taus)}")
        if shuffled is not None:
            moved = shuffled.total_variation[:, position].mean()
            facts.append(f"shuffling moves {moved:.0%}")
        rows = [values[position] for values in explanation.measures.values()]
        sources = [
            {"token": source, "bars": [_bar(row[column], row) for row in rows]}
            for column, source in enumerate(explanation.source_tokens)
        ]
        yield {"token": token, "facts": facts, "sources": sources}


def _bar(value: float, row: np.ndarray) -> dict[str, Any]:
    largest = abs(row).max() or 1.0
    share = f"{abs(value) / largest:.0%}"
    return {"text": number(value, largest), "share": share, "is_below": value < 0}


def _agreement_row(each: Agreement) -> list[str]:
    names = f"{MEASURES[each.first]} and {MEASURES[each.second]}"
    bounds = [_tau(bound.reduce(each.taus)) for bound in (np.fmin, np.fmax)]
    same = f"{each.is_same.sum()} of {len(each.taus)}"
    return [names, _tau(each.mean), f"± {_tau(each.deviation)}", *bounds, same]


def _change_row(each: WeightChange) -> list[str]:
    moved = each.total_variation.mean(axis=1)
    bounds = f" ({moved.min():.0%}–{moved.max():.0%})" if len(moved) > 1 else ""
    numbers = f"{moved.mean():.0%}{bounds}", f"{each.divergence.mean():.2f}"
    return [each.kind, str(each.block or "all"), *numbers, f"{each.is_other.mean():.0%}"]


def _blocks(explanation: Explanation, axes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields each block of each kind of weights, with the maps of its heads."""
    taus = explanation.head_agreements("erasure")
    for kind, kind_axes in axes.items():
        for block, heads in enumerate(explanation.heads[kind]):
            maps = []
            for head, weights in enumerate(heads):
                note = f" · tau with erasure {_tau(taus[block, head])}" if kind == "cross" else ""
                maps.append(_draw_map(kind_axes, weights, f"head {head + 1}", note))
            yield {"title": f"{_KINDS[kind][0]}, block {block + 1}", "maps": maps}


def _tau(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _map_axes(kind: str, tokens: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Returns labels and size of all maps of one kind, which are drawn once and used by each."""
    _, rows, columns = _KINDS[kind]
    row_labels = [label_of(token, _LONGEST_LABEL) for token in tokens[rows]]
    column_labels = [label_of(token, _LONGEST_LABEL) for token in tokens[columns]]
    return {
        "name": kind,
        "rows": rows,
        "columns": columns,
        "row_labels": row_labels,
        "column_labels": column_labels,
        "left": max(map(_label_width, row_labels)) + _MARGIN,
        "top": max(map(_label_width, column_labels)) + _MARGIN,
        "width": _CELL * len(column_labels),
        "height": _CELL * len(row_labels),
    }


def _label_width(label: str) -> int:
    """Returns the approximate width of a label in pixels."""
    return sum(12 if unicodedata.east_asian_width(letter) in "WF" else 8 for letter in label)


def _draw_map(
    axes: dict[str, Any], values: np.ndarray, title: str, note: str = ""
) -> dict[str, Any]:
    """Returns a map of values `[T, S]` with its title and a note, for the template."""
    largest = float(abs(values).max())
    return {
        "axes": axes,
        "title": title,
        "caption": f"{title} · strongest {number(largest, largest)}{note}",
        "image": heat_map(values),
        "largest": f"{largest:.6g}",
        "digits": digits(largest),
        # Otherwise a few tokens would be drawn as wide as many.
        "max_width": round(1.3 * (axes["left"] + axes["width"])),
    }


def digits(largest: float) -> int:
    """Returns the number of decimal places that show two significant digits.

    >>> digits(11.5), digits(0.024)
    (2, 3)
    """
    return 2 if largest <= 0 else min(max(2, 1 - math.floor(math.log10(largest))), 9)


def number(value: float, largest: float) -> str:
    """Returns a number with as many decimal places as the largest beside it, and without "-0.00".

    >>> number(-0.0001, 1.0), number(-0.0123, 0.024)
    ('0.00', '-0.012')
    """
    text = f"{value:.{digits(largest)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


#: A blue and an orange that are visible on white and on black.
ABOVE, BELOW = (38, 120, 222), (222, 106, 30)


def heat_map(values: np.ndarray) -> str:
    """Returns numbers `[T, S]` as the data URL of a PNG picture with one pixel each.

    Pixels of larger absolute values are less transparent, so pictures suit light and dark pages;
    the largest one is opaque. Numbers below 0 are orange, others blue.
    """
    sizes = np.abs(values)
    pixels = np.empty((*values.shape, 4), np.uint8)
    pixels[..., :3] = np.where((values < 0)[..., None], BELOW, ABOVE)
    pixels[..., 3] = np.round(255 * sizes / (sizes.max() or 1.0))
    content = tf.io.encode_png(pixels, compression=9).numpy()
    return "data:image/png;base64," + base64.b64encode(content).decode()
