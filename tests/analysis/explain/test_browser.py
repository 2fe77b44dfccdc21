"""The page of an explanation in a browser: maps show their values to mouse and keyboard."""

import numpy as np
import pytest
from playwright.sync_api import expect

from keras_transformer.analysis.explain import make_explanation_page
from tests.analysis.explain.small_pair import make_explanation
from tests.browser import chromium, page  # noqa: F401


@pytest.fixture
def explained(page, tmp_path):  # noqa: F811
    path = tmp_path / "page.html"
    explanation = make_explanation(gradient=np.array([-2.0, 1.0, 0.0, 0.5]))
    path.write_text(make_explanation_page(explanation), encoding="utf-8")
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(path.as_uri())
    expect(page.locator("figure svg")).to_have_count(10)
    yield page
    assert problems == []


def point_at(page, number, x, y):  # noqa: F811
    """Moves the mouse into a map; `x` and `y` are shares of its width and height."""
    picture = page.locator("figure svg image").nth(number)
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)


def expect_value(page, number, text):  # noqa: F811
    isolated = " ← ".join(f"\u2068{token}\u2069" for token in text.rpartition(":")[0].split(" ← "))
    expected = f"{isolated}:{text.rpartition(':')[2]}"
    expect(page.locator("figure output").nth(number)).to_have_text(expected)


def test_map_shows_the_value_under_the_mouse(explained):
    # The second of four source tokens, in the map of attention.
    point_at(explained, 0, 0.3, 0.2)
    expect_value(explained, 0, "␣x ← ␣b: 0.75")
    # At the lower left, in the map of gradients, which has signs.
    point_at(explained, 2, 0.1, 0.9)
    expect_value(explained, 2, "<end> ← ␣a: -2.00")


def test_map_shows_the_value_chosen_with_arrow_keys(explained):
    explained.locator("figure svg").nth(2).focus()
    expect_value(explained, 2, "␣x ← ␣a: -2.00")
    for key in ("ArrowUp", "ArrowRight", "ArrowUp"):
        explained.keyboard.press(key)
    expect_value(explained, 2, "␣x ← ␣b: 1.00")


@pytest.mark.parametrize("width", [390, 1280])
def test_page_is_not_wider_than_the_window(explained, width):
    explained.set_viewport_size({"width": width, "height": 800})
    for summary in explained.locator("summary").all():
        summary.click()
    assert explained.evaluate("document.documentElement.scrollWidth") <= width
