"""The files of a report: whole, readable, and never over somebody else's."""

import io
import json
import os
import re
import tempfile

import numpy as np
import pytest
from matplotlib.image import imread

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report.open_corpus import (
    require_report_directory,
    save_data_report,
)
from keras_transformer.analysis.data_report.picture import draw_data_report
from keras_transformer.analysis.data_report.report import FORMAT, make_data_report
from keras_transformer.data import MemoryCorpus
from tests.nobody import as_nobody

PAIRS = [("ein Satz" * n, "a sentence" * n) for n in range(1, 20)]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    caches = tmp_path_factory.mktemp("caches")
    return make_data_report(MemoryCorpus(PAIRS), caches, tokenizer="bytes")


def pixels(png):
    return imread(io.BytesIO(png), format="png")


@pytest.fixture(scope="module")
def saved(report, tmp_path_factory):
    return save_data_report(report, tmp_path_factory.mktemp("reports") / "new" / "folder")


def test_json_holds_the_report_a_key_a_line(report, saved):
    text = saved[0].read_text(encoding="ascii")
    assert json.loads(text) == report
    assert re.findall(r'^"(\w+)": ', text, re.MULTILINE) == list(report)


def test_picture_is_a_png_with_something_in_each_quarter(saved):
    image = pixels(saved[1].read_bytes())
    height, width, _ = image.shape
    assert height > 800
    assert width > 1200
    for rows in (slice(0, height // 2), slice(height // 2, height)):
        for columns in (slice(0, width // 2), slice(width // 2, width)):
            is_colored = np.ptp(image[rows, columns, :3], axis=-1) > 0.2
            assert is_colored.sum() > 1000


def test_picture_can_be_drawn_from_the_json(saved):
    assert draw_data_report(json.loads(saved[0].read_text())) == saved[1].read_bytes()


@pytest.mark.parametrize(
    "corpus", [MemoryCorpus([("a", "b")]), MemoryCorpus([("a text",), ("text",)], ("text",))]
)
def test_pictures_of_the_smallest_corpora(corpus, tmp_path):
    report = make_data_report(corpus, tmp_path / "caches", tokenizer="bytes")
    assert pixels(draw_data_report(report)).shape[1] > 1200


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("names", [["$x_$ 100%.de", "日本語.txt", "\udce4.txt"], ["n" * 250]])
def test_any_file_name_can_stand_in_the_title(report, names):
    files = [f"/some/where/{name}" for name in names]
    assert pixels(draw_data_report({**report, "files": files})).size


def test_an_earlier_report_is_replaced(report, tmp_path):
    (tmp_path / "report.json").write_text(json.dumps({"format": FORMAT}))
    (tmp_path / "report.png").write_text("an older picture")
    path, picture = save_data_report(report, tmp_path)
    assert json.loads(path.read_text()) == report
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir(tmp_path)) == ["report.json", "report.png"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("report.json", "{}"),
        ("report.json", "[1]"),
        ("report.json", "not JSON"),
        ("report.png", "a picture of somebody else"),
    ],
)
def test_a_file_of_somebody_else_is_never_replaced(report, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=f"{name}: exists and is not of a data report. Name anoth"):
        save_data_report(report, tmp_path)
    assert (tmp_path / name).read_text() == content


def test_nothing_is_made_before_there_is_a_report(tmp_path):
    require_report_directory(tmp_path / "some" / "folder")
    assert os.listdir(tmp_path) == []


def test_a_file_cannot_be_the_directory(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match=r"cannot be written there \(.*/file is not a directory\)"):
        require_report_directory(tmp_path / "file" / "folder")


def test_a_directory_that_cannot_be_written():
    # pytest's own directory is closed to nobody.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        message = r"permission denied\)\. Name another directory with `out"
        with as_nobody(), pytest.raises(UserError, match=message):
            require_report_directory(os.path.join(folder, "folder"))
