"""Matrices on the page of an explanation: pictures with tokens at their sides."""

import html
import math
import unicodedata

from keras_transformer.explanation.heat_map import heat_map
from keras_transformer.inference.alignment import split_mark

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
