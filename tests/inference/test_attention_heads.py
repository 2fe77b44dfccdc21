"""All heads of a layer in one picture."""

import io

import numpy as np
import pytest
from matplotlib import image

from keras_transformer.trainer.attention_maps import draw_attention_heads
from tests.inference.test_attention_maps import ODD_TOKENS

CELL = 14


def pixels(weights, rows, columns):
    content = draw_attention_heads(weights, rows, columns)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return image.imread(io.BytesIO(content))[..., :3]


def dark_places(picture):
    """The upper left corners of all cells of the darkest blue."""
    is_dark = np.abs(picture - np.array([8, 48, 107]) / 255).max(axis=2) < 0.02
    inside = is_dark[:-1, :-1] & is_dark[1:, :-1] & is_dark[:-1, 1:]
    is_corner = inside & ~np.roll(inside, 1, axis=0) & ~np.roll(inside, 1, axis=1)
    return [tuple(place) for place in np.argwhere(is_corner)]


def test_draw_attention_heads_darkens_cells_by_weight():
    weights = np.zeros((2, 3, 4))
    weights[0, [0, 1, 2], [3, 1, 0]] = 0.5  # each head has the whole scale
    weights[1, [0, 1, 2], [0, 2, 3]] = 0.9
    places = dark_places(pixels(weights, ["a", "b", "c"], ["d", "e", "f", "g"]))
    assert len(places) == 6
    top = places[0][0]
    left = min(x for _, x in places)
    second = max(x for _, x in places) - 3 * CELL  # the last cell of the second head
    found = {((y - top) // CELL, x - left if x < second else x - second) for y, x in places}
    assert second >= left + 4 * CELL
    assert found == {(0, 3 * CELL), (1, CELL), (2, 0), (0, 0), (1, 2 * CELL), (2, 3 * CELL)}


def test_draw_attention_heads_places_heads_in_pairs():
    tokens = ["▁wort"] * 10
    one, two, three = (pixels(np.ones((heads, 10, 10)), tokens, tokens) for heads in (1, 2, 3))
    assert one.shape == two.shape
    assert three.shape == (2 * two.shape[0], *two.shape[1:])
    # As TensorBoard shows it, without making it smaller.
    assert 2 * 10 * CELL < two.shape[1] < 400


@pytest.mark.filterwarnings("error")
def test_draw_attention_heads_of_odd_tokens_prints_nothing(caplog):
    number = len(ODD_TOKENS)
    picture = pixels(np.zeros((1, number, number)), ODD_TOKENS, ODD_TOKENS)
    assert picture.shape[0] > number * CELL
    assert not caplog.records


@pytest.mark.parametrize("shape", [(1, 3, 2), (2, 3), (1, 0, 3), (0, 2, 3)])
def test_draw_attention_heads_with_another_shape_raises_an_error(shape):
    message = r"`scores` must have shape \[heads, row tokens, column tokens\] = \[H, 2, 3\], none"
    with pytest.raises(ValueError, match=message):
        draw_attention_heads(np.zeros(shape), ["a", "b"], ["c", "d", "e"])
