"""All heads of a layer in one picture: a PNG file, small enough for many of them."""

import functools
import io

import numpy as np

from keras_transformer.inference.attention_picture import label_of, plain_settings

# Two heads of some ten tokens side by side are as wide as TensorBoard shows a picture, 400 dots.
_CELL_DOTS = 14
_FONT_POINTS = 7.5
_DOTS_PER_INCH = 100
_GAP_DOTS = 10
_MARGIN_DOTS = 4  # between labels and cells
_COLUMNS = 2
_LONGEST_LABEL = 14
_LINE_COLOUR = 220  # "gainsboro", as in the picture of one alignment


def draw_attention_heads(weights, row_tokens, column_tokens):
    """Returns the picture of a layer's heads, side by side, as the bytes of a PNG file.

    Each row is a token that attends, each column one that is attended to; the darker, the more. The
    darkest cell of each head has the weight that is written above it. Labels are drawn once for all
    pictures with the same tokens, so that many layers take little time.

    Args:
        weights: of all heads, [H, T, S].
        row_tokens: T strings, as a tokenizer's vocabulary has them.
        column_tokens: S strings.
    """
    from matplotlib import image

    weights = np.asarray(weights, "float32")
    shape = len(row_tokens), len(column_tokens)
    if weights.ndim != 3 or weights.shape[1:] != shape or 0 in weights.shape:
        raise ValueError(
            "`weights` must have shape [heads, row tokens, column tokens] = [H, "
            f"{shape[0]}, {shape[1]}], none of them 0; got {weights.shape}."
        )
    left = _draw_labels(tuple(map(_short, row_tokens)), "right")
    # Turned, so that they are read from below, beginning at the cells.
    top = np.rot90(_draw_labels(tuple(map(_short, column_tokens)), "left"))
    heads = [_draw_head(number, head, top) for number, head in enumerate(weights, start=1)]
    width = max(head.shape[1] for head in heads) + _GAP_DOTS
    heads = [_widened(head, width) for head in heads]
    heads += [np.full_like(heads[0], 255)] * (-len(heads) % _COLUMNS)
    left = np.vstack([np.full((len(heads[0]) - len(left), left.shape[1], 3), 255, np.uint8), left])
    left = _widened(left, left.shape[1] + _MARGIN_DOTS)
    rows = [
        np.hstack([left, *heads[start : start + _COLUMNS]])
        for start in range(0, len(heads), _COLUMNS)
    ]
    content = io.BytesIO()
    image.imsave(content, np.vstack(rows), format="png")
    return content.getvalue()


def _short(token):
    return label_of(token, _LONGEST_LABEL)


def _draw_head(number, weights, top):
    """A picture [height, width, 3] of one head below the labels of its columns."""
    largest = float(weights.max()) or 1.0
    # In two parts, each of which is the same in many pictures.
    title = [_draw_labels((text,), "left") for text in (f"head {number}", f"≤ {largest:.2f}")]
    parts = [
        np.full((_GAP_DOTS, 1, 3), 255, np.uint8),
        np.hstack([_widened(title[0], title[0].shape[1] + _GAP_DOTS), title[1]]),
        top,
        np.full((_MARGIN_DOTS, 1, 3), 255, np.uint8),
        _draw_cells(weights / largest),
    ]
    width = max(part.shape[1] for part in parts)
    return np.vstack([_widened(part, width) for part in parts])


def _widened(part, width):
    """The same with white at its right."""
    return np.pad(part, ((0, 0), (0, width - part.shape[1]), (0, 0)), constant_values=255)


def _draw_cells(shades):
    """Squares [T · dots, S · dots, 3] of shades from 0 to 1 [T, S], with lines between them."""
    from matplotlib import colormaps

    colours = colormaps["Blues"](shades, bytes=True)[..., :3]
    cells = colours.repeat(_CELL_DOTS, axis=0).repeat(_CELL_DOTS, axis=1)
    cells[_CELL_DOTS - 1 :: _CELL_DOTS] = _LINE_COLOUR
    cells[:, _CELL_DOTS - 1 :: _CELL_DOTS] = _LINE_COLOUR
    return cells


@functools.lru_cache(maxsize=512)
def _draw_labels(labels, side):
    """A strip [N · dots, width, 3] of N labels one below the other, aligned at a side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = len(labels) * _CELL_DOTS
    with plain_settings():
        figure = Figure(dpi=_DOTS_PER_INCH)
        canvas = FigureCanvasAgg(figure)
        texts = [
            # A token such as "$x$" is no formula.
            figure.text(0, 0, label, fontsize=_FONT_POINTS, ha=side, parse_math=False)
            for label in labels
        ]
        width = max(1, *(int(np.ceil(text.get_window_extent().width)) for text in texts)) + 2
        figure.set_size_inches(width / _DOTS_PER_INCH, height / _DOTS_PER_INCH)
        for number, text in enumerate(texts):
            text.set_verticalalignment("center_baseline")
            text.set_position(
                (
                    (width - 1) / width if side == "right" else 1 / width,
                    1 - (number + 0.5) / len(texts),
                )
            )
        canvas.draw()
        return np.array(canvas.buffer_rgba())[:height, :width, :3]
