"""TensorBoard itself in a browser, with the logs of a finished training."""

import contextlib
import io
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from matplotlib import image

from tests.browser import PATIENCE, chromium, find_chromium, page  # noqa: F401
from tests.trainer.tensorboard.watched_run import REFERENCES, SOURCES

# Finds elements by a CSS selector in shadow roots and in frames of the same server, where
# TensorBoard's dashboards are.
HELPERS = """
window.elements = (selector, root = document) => {
  const found = [...root.querySelectorAll(selector)];
  for (const each of root.querySelectorAll('*')) {
    if (each.shadowRoot) found.push(...elements(selector, each.shadowRoot));
    if (each.tagName === 'IFRAME' && each.contentDocument)
      found.push(...elements(selector, each.contentDocument));
  }
  return found;
};
window.texts = selector => elements(selector).map(each => each.textContent.trim());
window.isVisible = each => {
  const box = each.getBoundingClientRect();
  return box.width * box.height > 0;
};
"""


class Dashboard:
    """A page of TensorBoard.

    Args:
        page: the browser's page.
        address: address of the server.
    """

    def __init__(self, page, address):  # noqa: F811
        self.page, self.address = page, address
        page.add_init_script(HELPERS)

    def open(self, fragment):
        self.page.goto(self.address + fragment)

    def wait_for(self, statements):
        """Returns the value of JavaScript statements once it is neither false nor empty."""
        handle = self.page.wait_for_function(f"() => {{ {statements} }}", polling=200)
        return handle.json_value()


@contextlib.contextmanager
def serving(log_dir, output):
    """Yields the address of a TensorBoard on a free port of this machine."""
    command = ["-m", "tensorboard.main", "--host", "127.0.0.1", "--port", "0", "--logdir"]
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *command, str(log_dir)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        while not (address := re.search(r"http://127\.0\.0\.1:\d+/", output.read_text())):
            if process.poll() is not None:
                raise RuntimeError(f"TensorBoard did not start: {output.read_text()}")
            time.sleep(0.1)
        yield address.group()
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE / 1000)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address(watched, tmp_path_factory, chromium):  # noqa: F811
    # After the browser: without a browser there is nothing to start.
    output = tmp_path_factory.mktemp("tensorboard") / "output.txt"
    with serving(watched.log_dir, output) as address:
        yield address


@pytest.fixture
def dashboard(page, address):  # noqa: F811
    return Dashboard(page, address)


def test_scalars_are_curves_of_training_and_validation_in_one_chart(dashboard, watched):
    dashboard.open("#scalars&tagFilter=%5Eloss%24")
    lines = dashboard.wait_for(
        "const chart = elements('vz-line-chart2').filter(isVisible)[0];"
        "const paths = chart ? [...chart.shadowRoot.querySelectorAll('path')] : [];"
        "const lines = paths.filter(path => /^M[^A]*L/.test(path.getAttribute('d')));"
        "const colors = lines.map(line => getComputedStyle(line).stroke);"
        "return new Set(colors).size == 2 && colors"
    )
    assert len(lines) == 4  # each line as it is, and smoothed
    categories = dashboard.page.evaluate(
        "elements('tf-category-paginated-view').map(each => each.category.name)"
    )
    assert categories == ["^loss$", *sorted({*watched.tests[6], "learning_rate"})]


def test_images_show_the_attention_of_each_layer(dashboard):
    dashboard.open("#images")
    sizes = dashboard.wait_for(
        "const seen = elements('img').filter(each => isVisible(each) && each.naturalWidth > 0);"
        "return seen.length >= 6 && seen.map(each => [each.naturalWidth, each.naturalHeight])"
    )
    assert len(sizes) == 2 * 3
    assert all(100 < length < 1500 for size in sizes for length in size)
    tags = dashboard.page.evaluate("elements('tf-image-loader').map(each => each.tag)")
    assert sorted(set(tags)) == [
        "attention/cross/layer_1",
        "attention/decoder/layer_1",
        "attention/encoder/layer_1",
    ]


def test_translations_are_a_table_of_texts(dashboard, watched):
    dashboard.open("#text")
    cells = dashboard.wait_for(
        "const cells = elements('td').filter(isVisible).map(each => each.textContent);"
        "return cells.length >= 18 && cells"
    )
    rows = [cells[start : start + 3] for start in range(0, len(cells), 3)]
    newest_first = [
        list(row)
        for step in (6, 3)
        for row in zip(SOURCES, REFERENCES, watched.hypotheses[step], strict=True)
    ]
    assert rows == newest_first


def test_hyperparameters_and_results_are_in_one_table(dashboard, watched):
    dashboard.open("#hparams")
    cells = dashboard.wait_for(
        "const cells = texts('vaadin-grid-cell-content').filter(each => each);"
        "return cells.includes('phrases') && cells"
    )
    head = ["model.dropout", "model.hidden_dim", "name", "text.shared", *sorted(watched.tests[6])]
    assert cells[2 : 2 + len(head)] == head
    values = cells[-len(head) :]
    assert values[1:4] == ["64.000", "phrases", "true"]
    results = [watched.tests[6][name] for name in sorted(watched.tests[6])]
    assert [float(value) for value in values[4:]] == pytest.approx(results, rel=1e-3, abs=1e-3)


def test_projector_draws_the_vocabulary(dashboard, watched):
    dashboard.open("#projector")
    points, dimensions = watched.embeddings.shape
    dashboard.wait_for(
        f"return texts('.numDataPoints').includes('{points}') && "
        f"texts('.dim').includes('{dimensions}')"
    )
    dashboard.wait_for("return elements('canvas').some(isVisible)")
    # Points are drawn with WebGL, so only a screenshot shows them.
    for _ in range(PATIENCE // 500):
        if count_blue_pixels(dashboard.page.screenshot()) >= 500:
            break
        time.sleep(0.5)
    else:
        pytest.fail("The projector shows no points.")
    # Points are labeled by a column of our table.
    dashboard.wait_for("return elements('input').some(each => each.value === 'token')")


def count_blue_pixels(content):
    picture = image.imread(io.BytesIO(content))[..., :3]
    return int((np.abs(picture - np.array([0.46, 0.46, 0.85])).max(axis=2) < 0.08).sum())


def test_missing_chromium_is_reported_with_the_package_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"chromium on the PATH.*apt-get install chromium"):
        find_chromium()
