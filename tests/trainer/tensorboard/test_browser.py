"""TensorBoard itself, in a browser, on the logs of a finished training: what a person sees."""

import contextlib
import io
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from matplotlib import image

from tests.trainer.tensorboard.chromium import PATIENCE, Chromium
from tests.trainer.tensorboard.watched_run import REFERENCES, SOURCES


@contextlib.contextmanager
def serving(log_dir, said):
    """The address of a TensorBoard on a free port of this machine alone."""
    command = ["-m", "tensorboard.main", "--host", "127.0.0.1", "--port", "0", "--logdir"]
    with said.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *command, str(log_dir)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        end = time.monotonic() + PATIENCE
        while not (address := re.search(r"http://127\.0\.0\.1:\d+/", said.read_text())):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"TensorBoard did not start: {said.read_text()}")
            time.sleep(0.1)
        yield address.group()
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("chromium")) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def address(watched, tmp_path_factory, browser):
    # After the browser: without one there is nothing to start for.
    said = tmp_path_factory.mktemp("tensorboard") / "said.txt"
    with serving(watched.log_dir, said) as address:
        yield address


def test_scalars_are_curves_of_training_and_validation_in_one_chart(browser, address, watched):
    browser.open(address + "#scalars&tagFilter=%5Eloss%24")
    lines = browser.wait_for(
        "const chart = elements('vz-line-chart2').filter(isSeen)[0];"
        "const paths = chart ? [...chart.shadowRoot.querySelectorAll('path')] : [];"
        "const lines = paths.filter(path => /^M[^A]*L/.test(path.getAttribute('d')));"
        "const colors = lines.map(line => getComputedStyle(line).stroke);"
        "new Set(colors).size == 2 && colors"
    )
    assert len(lines) == 4  # each as it is, and smoothed
    categories = browser.evaluate(
        "elements('tf-category-paginated-view').map(each => each.category.name)"
    )
    assert categories == ["^loss$", *sorted({*watched.tests[6], "learning_rate"})]


def test_images_show_the_attention_of_each_layer(browser, address):
    browser.open(address + "#images")
    sizes = browser.wait_for(
        "const seen = elements('img').filter(each => isSeen(each) && each.naturalWidth > 0);"
        "seen.length >= 6 && seen.map(each => [each.naturalWidth, each.naturalHeight])"
    )
    assert len(sizes) == 2 * 3
    assert all(100 < length < 1500 for size in sizes for length in size)
    tags = browser.evaluate("elements('tf-image-loader').map(each => each.tag)")
    assert sorted(set(tags)) == [
        "attention/cross/layer_1",
        "attention/decoder/layer_1",
        "attention/encoder/layer_1",
    ]


def test_translations_are_a_table_of_texts(browser, address, watched):
    browser.open(address + "#text")
    cells = browser.wait_for(
        "const cells = elements('td').filter(isSeen).map(each => each.textContent);"
        "cells.length >= 18 && cells"
    )
    rows = [cells[start : start + 3] for start in range(0, len(cells), 3)]
    newest_first = [
        list(row)
        for step in (6, 3)
        for row in zip(SOURCES, REFERENCES, watched.hypotheses[step], strict=True)
    ]
    assert rows == newest_first


def test_settings_and_results_stand_in_one_table(browser, address, watched):
    browser.open(address + "#hparams")
    cells = browser.wait_for(
        "const cells = texts('vaadin-grid-cell-content').filter(each => each);"
        "cells.includes('phrases') && cells"
    )
    head = ["model.dropout", "model.hidden_dim", "name", "text.shared", *sorted(watched.tests[6])]
    assert cells[2 : 2 + len(head)] == head
    values = cells[-len(head) :]
    assert values[1:4] == ["64.000", "phrases", "true"]
    results = [watched.tests[6][name] for name in sorted(watched.tests[6])]
    assert [float(value) for value in values[4:]] == pytest.approx(results, rel=1e-3, abs=1e-3)


def test_the_projector_draws_the_vocabulary(browser, address, watched, tmp_path):
    browser.open(address + "#projector")
    points, width = watched.embeddings.shape
    browser.wait_for(
        f"texts('.numDataPoints').includes('{points}') && texts('.dim').includes('{width}')"
    )
    browser.wait_for("elements('canvas').some(isSeen)")
    end = time.monotonic() + PATIENCE
    # It draws with WebGL, so that only the picture itself tells whether there is something.
    while blue_dots(browser, tmp_path / "projector.png") < 500:
        assert time.monotonic() < end, "There are no points to be seen in the projector."
        time.sleep(0.5)
    # What the points are labeled by: a column of our table.
    browser.wait_for("elements('input').some(each => each.value === 'token')")


def blue_dots(browser, path):
    browser.screenshot(path)
    picture = image.imread(io.BytesIO(path.read_bytes()))[..., :3]
    return int((np.abs(picture - np.array([0.46, 0.46, 0.85])).max(axis=2) < 0.08).sum())


def test_without_chromium_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"no chromium on the PATH.*apt-get install chromium"):
        Chromium(tmp_path)
