"""An alignment as a picture: a PNG file."""

import contextlib
import io
import warnings

import numpy as np

from keras_transformer.inference.alignment import split_mark

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
    """Draws which colour means which weight, right of the cells."""
    width, height = inches
    place = (1 + 0.15 / width, max(0, 1 - 2 / height), 0.12 / width, min(1, 2 / height))
    scale = figure.colorbar(image, cax=figure.add_axes(place))
    scale.ax.tick_params(labelsize=_FONT_POINTS - 1, length=2)
    scale.outline.set_visible(False)
