"""The page in a browser: maps tell their values to mouse and keyboard."""

import numpy as np

from keras_transformer.analysis.explain import make_explanation_page
from tests.explanation.small_pair import make_explanation
from tests.trainer.tensorboard.chromium import Chromium

POINT = """
const map = elements('figure svg')[{number}];
const box = map.querySelector('image').getBoundingClientRect();
map.dispatchEvent(new PointerEvent('pointermove', {{
  clientX: box.left + box.width * {x}, clientY: box.top + box.height * {y} }}));
"""
SAID = "elements('figure output')[{number}].textContent.replace(/[\\u2068\\u2069]/g, '')"


def test_a_cell_tells_its_value(tmp_path):
    page = tmp_path / "page.html"
    explanation = make_explanation(gradient=np.array([-2.0, 1.0, 0.0, 0.5]))
    page.write_text(make_explanation_page(explanation), encoding="utf-8")
    with Chromium(tmp_path / "profile") as browser:
        browser.open(page.as_uri())
        browser.wait_for("document.readyState == 'complete' && elements('figure svg').length == 10")
        # The second of four source tokens, in the map of attention.
        browser.evaluate(POINT.format(number=0, x=0.3, y=0.2))
        assert browser.wait_for(SAID.format(number=0)) == "␣x ← ␣b: 0.75"
        # Below, at the left, in that of gradients.
        browser.evaluate(POINT.format(number=2, x=0.1, y=0.9))
        assert browser.wait_for(SAID.format(number=2)) == "<end> ← ␣a: -2.00"
        browser.evaluate(
            "const map = elements('figure svg')[2];"
            "const press = key => map.dispatchEvent(new KeyboardEvent('keydown', { key }));"
            "press('ArrowUp'); press('ArrowRight'); press('ArrowUp')"
        )
        said = SAID.format(number=2)
        assert browser.wait_for(f"{said}.endsWith('1.00') && {said}") == "␣x ← ␣b: 1.00"
