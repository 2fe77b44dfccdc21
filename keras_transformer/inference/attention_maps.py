"""Attention between the tokens of texts: alignments, their pictures and their HTML pages."""

import dataclasses
import io
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.html import render_page
from keras_transformer._utils.pictures import default_settings
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.inference.translation import (
    Translation,
    as_text,
    call_signature,
)
from keras_transformer.text.special_ids import SPECIAL_NAMES

if TYPE_CHECKING:
    from keras_transformer.inference.text_methods import TextMethods

#: Maximum number of sentences that are drawn. A page with more is slow to open.
MAXIMUM_SENTENCES = {".png": 1, ".html": 50}

_TEMPLATE = pathlib.Path(__file__).with_name("attention.html.jinja")
_CELL_INCHES = 0.27
_FONT_POINTS = 9
_DOTS_PER_INCH = 120
# A larger picture gets fewer dots per inch instead: 16,000 dots a side would take 1 GB.
_MAXIMUM_DOTS = 8_000
_LONGEST_LABEL = 24


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The attention between a source and a target.

    Attributes:
        source: source text; of a source in CoNLL-U, its words.
        target: target text.
        source_tokens: tokens of the source as a person reads them, S strings.
        target_tokens: tokens of the target, T strings.
        weights: attention `[T, S]` of each target token to each source token.
    """

    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: np.ndarray

    def __post_init__(self) -> None:
        shape = len(self.target_tokens), len(self.source_tokens)
        if self.weights.shape != shape:
            raise UserError(
                f"`weights` must have shape [target tokens, source tokens] = {shape}; got "
                f"{self.weights.shape}."
            )

    @property
    def largest_weight(self) -> float:
        """The darkest cell of a picture; 1 if all weights are 0 or there are none."""
        return float(self.weights.max(initial=0)) or 1.0


def align(
    text_model: "TextMethods", sources: Sequence[str], targets: Sequence[str]
) -> list[Alignment]:
    """Returns the `Alignment` of each pair of texts.

    Args:
        text_model: a `TextModel`, from `keras_transformer.load`.
        sources: the source texts.
        targets: as many target texts, translated by the model or by people.
    """
    text_model.require("attention")
    inputs = {"source": sources, "target": targets}
    found = call_signature(text_model, "attention", len(sources), **inputs)
    tokens = (found[f"{side}_tokens"] for side in ("source", "target"))
    alignments = []
    answers = zip(*tokens, found["weights"], strict=True)
    for source, target, answer in zip(sources, targets, answers, strict=True):
        source_tokens, target_tokens, weights = answer
        # Padding consists of empty tokens.
        columns = tuple(as_text(token) for token in source_tokens if token)
        rows = tuple(as_text(token) for token in target_tokens if token)
        weights = weights[: len(rows), : len(columns)]
        alignments.append(Alignment(conllu_text(source), target, columns, rows, weights))
    return alignments


def split_mark(token: str) -> tuple[str, str]:
    """Returns the mark of a token, which is displayed less prominently, and its text.

    SentencePiece writes "▁" where a word begins, displayed as "␣"; WordPiece writes "##" where a
    word continues. The names of special ids are all mark. Invisible characters are escaped.

    >>> split_mark("▁house"), split_mark("##s"), split_mark("<end>"), split_mark("\\t")
    (('␣', 'house'), ('##', 's'), ('<end>', ''), ('', '\\\\t'))
    """
    if token in SPECIAL_NAMES:
        return token, ""
    text = token.lstrip("▁")
    if text != token:
        return "␣" * (len(token) - len(text)), shown(text)
    text = token.removeprefix("##")
    return token[: len(token) - len(text)], shown(text)


def label_of(token: str, longest: int = _LONGEST_LABEL) -> str:
    """Returns the label of a token, cut to `longest` characters.

    >>> label_of("▁Donaudampfschifffahrt", 10)
    '␣Donaudam…'
    """
    label = "".join(split_mark(token))
    return label if len(label) <= longest else label[: longest - 1] + "…"


def most_sentences(path: str | os.PathLike[str]) -> int:
    """Returns the maximum number of sentences that a file of this name shows."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in MAXIMUM_SENTENCES:
        raise UserError("a picture of attention must end with .html or .png.", where=path)
    return MAXIMUM_SENTENCES[ending]


def save_attention(
    path: str | os.PathLike[str], text_model: "TextMethods", translations: Sequence[Translation]
) -> None:
    """Draws the attention of translations into a file, atomically.

    Args:
        path: the file: `.png` for a picture of the first translation, or `.html` for a page.
        text_model: the `TextModel` that made the translations.
        translations: at least one `Translation`.
    """
    translations = translations[: most_sentences(path)]
    sources = [translation.source for translation in translations]
    targets = [translation.text for translation in translations]
    if text_model.is_language_model:  # a continuation begins with its prompt
        sources = [""] * len(targets)
    alignments = align(text_model, sources, targets)
    if os.fspath(path).lower().endswith(".png"):
        content = draw_attention(alignments[0])
    else:
        content = make_attention_page(alignments, f"Attention of {text_model.name}").encode()
    with atomic_file(path, "wb") as file:
        file.write(content)


def draw_attention(alignment: Alignment) -> bytes:
    """Returns the picture of an `Alignment` as the bytes of a PNG file.

    Each row is a token of the target, each column a token of the source. The darker a cell, the
    more the row attends to the column. Characters that no installed font has are drawn as boxes;
    a page in HTML leaves fonts to the browser.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = (max(1, length) for length in alignment.weights.shape)
    inches = np.array([columns, rows]) * _CELL_INCHES
    with default_settings():
        figure = Figure(figsize=tuple(inches))
        # The axes fill the figure, so that all cells are squares of the same size in all pictures;
        # labels enlarge the picture.
        axes = figure.add_axes((0, 0, 1, 1))
        image = _draw_cells(axes, alignment)
        _draw_scale(figure, image, inches)
        content = io.BytesIO()
        FigureCanvasAgg(figure)
        dots = min(_DOTS_PER_INCH, _MAXIMUM_DOTS / inches.max())
        figure.savefig(content, format="png", dpi=dots, bbox_inches="tight", pad_inches=0.15)
    return content.getvalue()


def make_attention_page(alignments: Iterable[Alignment], title: str = "Attention") -> str:
    """Returns an HTML page with all alignments; it loads no other files and runs no script.

    Args:
        alignments: the alignments.
        title: title of the page. Default "Attention".
    """
    return render_page(_TEMPLATE, title=shown(title), alignments=map(_as_table, alignments))


def _draw_cells(axes: Any, alignment: Alignment) -> Any:
    weights = alignment.weights if alignment.weights.size else np.zeros((1, 1))
    shades = {"cmap": "Blues", "vmin": 0, "vmax": alignment.largest_weight}
    image = axes.imshow(weights, **shades, interpolation="nearest")
    _label(axes.xaxis, alignment.source_tokens, rotation=90)
    _label(axes.yaxis, alignment.target_tokens)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source", color="dimgray")
    axes.set_ylabel("target", color="dimgray")
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    # Lines between the cells make rows easier to read.
    height, width = weights.shape
    lines = {"color": "gainsboro", "linewidth": 0.5}
    axes.hlines(np.arange(1, height) - 0.5, -0.5, width - 0.5, **lines)
    axes.vlines(np.arange(1, width) - 0.5, -0.5, height - 0.5, **lines)
    axes.spines[:].set_color("gainsboro")
    return image


def _label(axis: Any, tokens: Sequence[str], **settings: Any) -> None:
    labels = [label_of(token) for token in tokens]
    # A token such as "$x$" is not a formula.
    axis.set_ticks(range(len(labels)), labels, fontsize=_FONT_POINTS, parse_math=False, **settings)


def _draw_scale(figure: Any, image: Any, inches: np.ndarray) -> None:
    """Draws the color scale to the right of the cells."""
    width, height = inches
    place = (1 + 0.15 / width, max(0, 1 - 2 / height), 0.12 / width, min(1, 2 / height))
    scale = figure.colorbar(image, cax=figure.add_axes(place))
    scale.ax.tick_params(labelsize=_FONT_POINTS - 1, length=2)
    scale.outline.set_visible(False)


def _as_table(alignment: Alignment) -> dict[str, Any]:
    """Returns what the template shows of an alignment."""
    strongest = alignment.largest_weight
    titles = [_title(token) for token in alignment.source_tokens]
    rows = [
        {
            "token": split_mark(token),
            "cells": [
                (f"{weight / strongest:.2f}", f"{_title(token)} ← {title}: {weight:.3f}")
                for title, weight in zip(titles, weights, strict=True)
            ],
        }
        for token, weights in zip(alignment.target_tokens, alignment.weights, strict=True)
    ]
    return {
        "source": shown(alignment.source),
        "target": shown(alignment.target),
        "columns": [split_mark(token) for token in alignment.source_tokens],
        "rows": rows,
        "largest": f"{strongest:.3f}",
    }


def _title(token: str) -> str:
    # The Unicode isolates keep a token of a right-to-left script in its place.
    return "\u2068" + "".join(split_mark(token)) + "\u2069"
