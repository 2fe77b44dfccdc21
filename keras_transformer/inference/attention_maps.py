"""Alignments as a page: one HTML file that needs nothing else."""

import contextlib
import dataclasses
import html
import io
import os
import warnings

import numpy as np

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.inference.translation import as_tensor, as_text, require_text_generator
from keras_transformer.text.tokenizer import SPECIAL_NAMES


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The attention of one sentence.

    Attributes:
        source, target: the texts; of a source that is CoNLL-U, the words.
        source_tokens: what a person reads for each token of the source, S strings.
        target_tokens: the same for the target, T strings.
        weights: [T, S], how much each target token attended to each source token.
    """

    source: str
    target: str
    source_tokens: tuple
    target_tokens: tuple
    weights: np.ndarray

    def __post_init__(self):
        shape = len(self.target_tokens), len(self.source_tokens)
        if self.weights.shape != shape:
            raise ValueError(
                f"`weights` must have shape [target tokens, source tokens] = {shape}; got "
                f"{self.weights.shape}."
            )

    @property
    def largest_weight(self):
        """The darkest cell of a picture; 1 if all weights are 0 or there is none."""
        return float(self.weights.max(initial=0)) or 1.0


def split_mark(token):
    """Returns how a token is shown: its mark, to stand back where that can be, and its text.

    SentencePiece writes "▁" where a word begins, shown as "␣"; WordPiece "##" where one goes on.
    The names of special ids are all mark. What would not be seen in the text is spelt out.

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


def align(text_model, sources, targets):
    """Returns the `Alignment` of each pair of texts.

    Args:
        text_model: A `TextModel`, from `open_text_model`.
        sources: A list of strings.
        targets: A list of as many strings, translations of the model or of people.
    """
    require_text_generator(text_model)
    found = text_model.signatures["attention"](source=as_tensor(sources), target=as_tensor(targets))
    rows = (found[name].numpy() for name in ("source_tokens", "target_tokens", "weights"))
    return [
        _make_alignment(*texts, *row)
        for *texts, row in zip(sources, targets, zip(*rows, strict=True), strict=True)
    ]


def _make_alignment(source, target, source_tokens, target_tokens, weights):
    """Makes an alignment of one row, without what fills the row up to the longest: empty tokens."""
    source_tokens = tuple(as_text(token) for token in source_tokens if token)
    target_tokens = tuple(as_text(token) for token in target_tokens if token)
    weights = weights[: len(target_tokens), : len(source_tokens)]
    return Alignment(conllu_text(source), target, source_tokens, target_tokens, weights)


#: How many sentences are drawn at most. A page with more is slow to open.
MOST_SENTENCES = {".png": 1, ".html": 50}


def most_sentences(path):
    """Returns how many sentences a file of this name shows, at most.

    >>> most_sentences("attention.png")
    1
    """
    return MOST_SENTENCES[_ending(path)]


def save_attention(path, text_model, translations):
    """Draws translations into a file, which is there whole or not at all.

    Args:
        path: Its name ends with `.png`, for the first translation alone, or `.html`, for a page.
        text_model: The `TextModel` that made the translations.
        translations: A list of `Translation`, at least one.
    """
    translations = translations[: most_sentences(path)]
    sources = [translation.source for translation in translations]
    targets = [translation.text for translation in translations]
    if text_model.kind == "LanguageModel":
        # What it wrote begins with what it was given.
        sources = [""] * len(targets)
    alignments = align(text_model, sources, targets)
    if _ending(path) == ".png":
        content = draw_attention(alignments[0])
    else:
        content = make_attention_page(alignments, f"Attention of {text_model.name}").encode()
    with atomic_file(path, "wb") as file:
        file.write(content)


def _ending(path):
    ending = os.path.splitext(path)[1].lower()
    if ending not in MOST_SENTENCES:
        raise UserError(f"{path}: a picture of attention must end with .html or .png.")
    return ending


_CELL_INCHES = 0.27
_FONT_POINTS = 9
_DOTS_PER_INCH = 120
# Beyond it the picture gets fewer dots per inch instead: 16,000 dots a side would take 1 GB.
_MOST_DOTS = 8_000
_LONGEST_LABEL = 24
# Tried in this order for letters that the font before has not; those not installed are left out.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans CJK KR",
    "Noto Sans Devanagari",
    "Noto Sans Arabic",
    "Noto Sans Thai",
    "Noto Sans",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "Unifont",
)


def draw_attention(alignment):
    """Returns the picture of an `Alignment` as the bytes of a PNG file.

    Each row is a token of the target, each column a token of the source; the darker, the more the
    row attended to the column. Letters that no installed font has are drawn as boxes; a page in
    HTML leaves the fonts to the browser.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = (max(1, length) for length in alignment.weights.shape)
    inches = np.array([columns, rows]) * _CELL_INCHES
    with plain_settings():
        figure = Figure(figsize=inches)
        # The axes fill the figure, so that all cells are squares of one size in all pictures; what
        # is written around them makes the picture larger.
        axes = figure.add_axes((0, 0, 1, 1))
        image = _draw_cells(axes, alignment)
        _draw_scale(figure, image, inches)
        content = io.BytesIO()
        FigureCanvasAgg(figure)
        dots = min(_DOTS_PER_INCH, _MOST_DOTS / inches.max())
        figure.savefig(content, format="png", dpi=dots, bbox_inches="tight", pad_inches=0.15)
    return content.getvalue()


@contextlib.contextmanager
def plain_settings():
    """A context in which matplotlib draws the same for everybody, with all fonts there are."""
    import matplotlib

    # The settings of the user's own matplotlibrc are for other pictures.
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams["font.family"] = _installed_fonts()
        # Letters that no font has are no reason to speak.
        warnings.simplefilter("ignore", UserWarning)
        yield


def label_of(token, longest=_LONGEST_LABEL):
    """Returns what is written for a token, cut if it is long.

    >>> label_of("▁Donaudampfschifffahrt", 10)
    '␣Donaudam…'
    """
    label = "".join(split_mark(token))
    return label if len(label) <= longest else label[: longest - 1] + "…"


def _installed_fonts():
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return [name for name in _FONTS if name in installed]


def _draw_cells(axes, alignment):
    weights = alignment.weights if alignment.weights.size else np.zeros((1, 1))
    image = axes.imshow(
        weights, cmap="Blues", vmin=0, vmax=alignment.largest_weight, interpolation="nearest"
    )
    _label(axes.xaxis, alignment.source_tokens, rotation=90)
    _label(axes.yaxis, alignment.target_tokens)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source", color="dimgray")
    axes.set_ylabel("target", color="dimgray")
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    # Lines between the cells, to follow a row with the eyes.
    height, width = weights.shape
    lines = {"color": "gainsboro", "linewidth": 0.5}
    axes.hlines(np.arange(1, height) - 0.5, -0.5, width - 0.5, **lines)
    axes.vlines(np.arange(1, width) - 0.5, -0.5, height - 0.5, **lines)
    axes.spines[:].set_color("gainsboro")
    return image


def _label(axis, tokens, **settings):
    labels = [label_of(token) for token in tokens]
    # A token such as "$x$" is no formula.
    axis.set_ticks(range(len(labels)), labels, fontsize=_FONT_POINTS, parse_math=False, **settings)


def _draw_scale(figure, image, inches):
    """Draws which color means which weight, right of the cells."""
    width, height = inches
    place = (1 + 0.15 / width, max(0, 1 - 2 / height), 0.12 / width, min(1, 2 / height))
    scale = figure.colorbar(image, cax=figure.add_axes(place))
    scale.ax.tick_params(labelsize=_FONT_POINTS - 1, length=2)
    scale.outline.set_visible(False)


_STYLE = """
:root { color-scheme: light dark; --heat: 0 90 170; --line: #8883; --quiet: #888; }
@media (prefers-color-scheme: dark) { :root { --heat: 110 190 255; } }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; }
body, th { background: Canvas; color: CanvasText; }
h1 { font-size: 1.4rem; }
h2 { font-size: 1rem; color: var(--quiet); border-top: 1px solid var(--line); padding-top: 1rem; }
p { max-width: 50rem; margin: .2rem 0; overflow-wrap: anywhere; }
.map { overflow: auto; max-height: 90vh; margin: .8rem 0 1.5rem; }
table { border-collapse: collapse; font-size: 13px; }
th { font-weight: normal; white-space: pre; position: sticky; }
thead th { top: 0; z-index: 1; writing-mode: vertical-rl; text-align: end; padding: 0 0 .3rem; }
tbody th { left: 0; text-align: end; padding: 0 .4rem 0 0; }
thead th:first-child { left: 0; z-index: 2; }
td { min-width: 1.4rem; height: 1.4rem; padding: 0; border: 1px solid var(--line); }
td { background: rgb(var(--heat) / var(--weight)); }
td:hover { outline: 2px solid CanvasText; outline-offset: -2px; }
tr:hover th { text-decoration: underline; }
i { font-style: normal; color: var(--quiet); }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p>Each row is a token of the target, each column a token of the source. The stronger the color,
the more the row attended to the column; point at a cell for its weight.</p>
{sections}
</body>
</html>
"""


def make_attention_page(alignments, title="Attention"):
    """Returns a page with all alignments as a string of HTML.

    It loads nothing from anywhere and runs no script. Its colors follow the light or dark setting
    of the browser.

    Args:
        alignments: An iterable of `Alignment`.
        title: Of the page.
    """
    sections = (_section(number, one) for number, one in enumerate(alignments, start=1))
    return _PAGE.format(title=_escaped(title), style=_STYLE, sections="\n".join(sections))


def _section(number, alignment):
    head = "".join(f"<th>{_token(token)}</th>" for token in alignment.source_tokens)
    rows = (_row(alignment, row) for row in range(len(alignment.target_tokens)))
    return (
        f"<section>\n<h2>{number}</h2>\n"
        f'<p dir="auto">{_escaped(alignment.source)}</p>\n'
        f'<p dir="auto">{_escaped(alignment.target)}</p>\n'
        f'<div class="map"><table>\n<thead><tr><th></th>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>\n"
        f"<p><i>Strongest color: {alignment.largest_weight:.3f}</i></p>\n</section>"
    )


def _row(alignment, row):
    target = _title(alignment.target_tokens[row])
    strongest = alignment.largest_weight
    cells = (
        f'<td style="--weight:{weight / strongest:.2f}" '
        f'title="{target} ← {_title(source)}: {weight:.3f}"></td>'
        for source, weight in zip(alignment.source_tokens, alignment.weights[row], strict=True)
    )
    return f"<tr><th>{_token(alignment.target_tokens[row])}</th>{''.join(cells)}</tr>"


def _token(token):
    mark, text = split_mark(token)
    return f"<i>{html.escape(mark)}</i>{html.escape(text)}" if mark else html.escape(text)


def _title(token):
    # Between marks of Unicode that keep a token of a script from right to left in its place.
    return html.escape("\u2068" + "".join(split_mark(token)) + "\u2069")


def _escaped(text):
    return html.escape(shown(text))
