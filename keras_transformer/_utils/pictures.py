"""Pictures drawn with matplotlib: one setup, one palette."""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colors of Okabe and Ito 2008, "Color universal design", distinguishable by color-blind people.
#: The palette's yellow is left out: it is too light for lines.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Markers of lines, for readers who cannot see the colors.
MARKERS = "os^Dv<>P"

# Tried in this order for characters that the previous font lacks, if they are installed.
_NOTO = ("CJK JP", "CJK SC", "CJK KR", "Devanagari", "Arabic", "Thai")
_FONTS = (
    "DejaVu Sans",
    *(f"Noto Sans {script}" for script in _NOTO),
    *("Noto Sans", "WenQuanYi Zen Hei", "Droid Sans Fallback", "Arial Unicode MS", "Unifont"),
)


@contextlib.contextmanager
def default_settings() -> Iterator[None]:
    """Draws with matplotlib's defaults and all installed fonts; ignores the user's matplotlibrc.

    Messages about missing fonts, characters and directories are suppressed.
    """
    import matplotlib
    from matplotlib import font_manager

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        installed = set(font_manager.get_font_names())
        matplotlib.rcParams["font.family"] = [name for name in _FONTS if name in installed]
        warnings.simplefilter("ignore", UserWarning)
        yield


def draw_png(
    draw: Callable[["Figure"], object],
    size: tuple[float, float],
    *,
    dpi: int = 100,
    padding: tuple[float, float] = (0.08, 0.08),
    title: str | None = None,
) -> bytes:
    """Returns a picture, drawn on an empty figure, as the bytes of a PNG file.

    Its size, and the padding around the axes, are width and height in inches. It does not depend on
    the user's matplotlibrc, and needs no display.

    >>> draw_png(lambda figure: figure.subplots().plot([1, 2]), (2, 1))[:4]
    b'\\x89PNG'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    content = io.BytesIO()
    layout = ConstrainedLayoutEngine(w_pad=padding[0], h_pad=padding[1])
    with default_settings():
        figure = Figure(figsize=size, dpi=dpi, layout=layout)
        if title is not None:
            figure.suptitle(title, fontsize=14, fontweight="bold", parse_math=False)
        draw(figure)
        FigureCanvasAgg(figure).print_png(content)
    return content.getvalue()


def simplify_axes(axes: "Axes") -> None:
    """Removes the upper and right border and adds a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
