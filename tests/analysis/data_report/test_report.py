"""The data report, compared with counts made by hand, and its files."""

import io
import json
import os
import re
import statistics
import tempfile

import numpy as np
import pytest
from matplotlib.image import imread

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report import (
    draw_data_report,
    make_data_report,
    require_report_directory,
    save_data_report,
)
from keras_transformer.analysis.data_report.report import FORMAT
from keras_transformer.analysis.data_report.statistics import BUCKET_SETTINGS
from keras_transformer.data import LabeledCorpus, MemoryCorpus, PairBatches, choose_buckets
from tests._utils.nobody import as_nobody

KEYS = {
    "format",
    "version",
    "package_version",
    "files",
    "validation_files",
    "columns",
    "settings",
    "corpus",
    "validation",
    "overlap",
    "lengths",
    "lines",
    "vocabularies",
    "padding",
    "tokenizing",
    "warnings",
}


@pytest.fixture
def report_on(tmp_path):
    def report_on(corpus, **options):
        report = make_data_report(corpus, tmp_path / "caches", **{"tokenizer": "bytes", **options})
        assert json.loads(json.dumps(report)) == report  # only JSON's types
        assert set(report) == KEYS
        return report

    return report_on


def lengths_in_bytes(examples, column):
    return [len(example[column].encode()) for example in examples]


def test_lengths_equal_those_of_texts(pairs, report_on):
    lengths = report_on(MemoryCorpus(pairs))["lengths"]
    for column, name in enumerate(("source", "target")):
        expected = lengths_in_bytes(pairs, column)
        found = lengths["columns"][name]
        assert found["minimum"] == min(expected)
        assert found["median"] == statistics.median_low(expected)
        assert found["mean"] == pytest.approx(statistics.fmean(expected))
        assert found["maximum"] == max(expected)
        width = lengths["histogram"]["bin_width"]
        counts = lengths["histogram"]["counts"][name]
        for number, count in enumerate(counts[:-1]):
            assert count == sum(number * width < n <= (number + 1) * width for n in expected)
        assert sum(counts) == len(pairs)
    joint = np.array(lengths["joint_histogram"])
    assert joint.sum() == len(pairs)
    assert joint.sum(axis=1).tolist() == lengths["histogram"]["counts"]["source"]
    assert joint.sum(axis=0).tolist() == lengths["histogram"]["counts"]["target"]


def test_single_long_line_does_not_widen_bins(report_on):
    report = report_on(MemoryCorpus([("abc", "abcd")] * 2000 + [("a" * 200, "b")]))
    histogram = report["lengths"]["histogram"]
    assert histogram["bin_width"] == 1
    assert histogram["counts"] == {"source": [0, 0, 2000, 0, 1], "target": [1, 0, 0, 2000, 0]}


def test_padding_equals_that_of_batches(pairs, make_cache, report_on):
    padding = report_on(MemoryCorpus(pairs), tokens=200, max_length=35)["padding"]
    assert [part["max_buckets"] for part in padding["settings"]] == list(BUCKET_SETTINGS)
    cache = make_cache(pairs)
    for part in padding["settings"]:
        table = choose_buckets(cache, tokens=200, max_length=35, max_buckets=part["max_buckets"])
        batches = PairBatches(cache, table, seed=0)
        slots = tokens = 0
        for number in range(len(batches)):
            inputs, labels = batches.batch(0, number)
            slots += inputs["source"].size + labels.size
            tokens += np.count_nonzero(inputs["source"]) + np.count_nonzero(labels)
        assert (part["shapes"], part["batches"]) == (len(table), len(batches))
        assert part["efficiency"] == pytest.approx(tokens / slots)
    default = padding["default"]
    too_long = sum(max(map(len, pair)) + 1 > 35 for pair in pairs)
    assert default["skipped"] == too_long > 0
    assert default["examples"] == len(pairs) - too_long
    assert sum(part["examples"] for part in default["buckets"]) == default["examples"]


def test_skipped_examples_give_warning(pairs, report_on):
    report = report_on(MemoryCorpus(pairs), max_length=35)
    skipped = report["padding"]["default"]["skipped"]
    (warning,) = report["warnings"]
    assert warning.startswith(f"{skipped:,} examples are longer than 35 tokens")


def test_overlap_is_counted_and_gives_warning(pairs, report_on):
    validation = MemoryCorpus([*pairs[:7], ("not", "there")])
    report = report_on(MemoryCorpus(pairs), validation=validation)
    assert report["overlap"] == 7
    assert report["validation"]["examples"] == 8
    assert "7 of 8 validation examples are also in the training corpus" in report["warnings"][0]


def test_share_of_tokens_only_in_validation(report_on):
    validation = MemoryCorpus([("abc", "xyz")])
    report = report_on(MemoryCorpus([("aaa", "bbb")]), validation=validation)
    assert report["vocabularies"][0]["validation_tokens_unseen_share"] == pytest.approx(4 / 6)


def test_validation_with_other_columns_is_refused(pairs, documents, report_on):
    with pytest.raises(UserError, match=r"columns text, but .* source"):
        report_on(MemoryCorpus(pairs), validation=MemoryCorpus(documents, columns=("text",)))


def test_report_on_single_pair(report_on):
    report = report_on(MemoryCorpus([("ja", "yes")]), tokenizer="sentencepiece")
    assert report["corpus"]["examples"] == 1
    assert report["padding"]["default"]["batches"] == 1
    assert "There is only one example." in report["warnings"]
    assert any("8000" in warning or "8,000" in warning for warning in report["warnings"])


def test_report_on_documents_has_packing(documents, report_on):
    report = report_on(MemoryCorpus(documents, columns=("text",)), max_length=64, tokens=256)
    too_long = sum(len(text) + 1 > 64 for (text,) in documents)
    assert report["padding"]["default"]["truncated"] == too_long > 0
    assert report["padding"]["default"]["skipped"] == 0
    *_, packed = report["padding"]["settings"]
    assert packed["row_length"] == 256
    assert 0.9 < packed["efficiency"] <= 1
    assert report["lengths"]["joint_histogram"] is None
    assert report["lines"]["target_tokens_per_source_token"] is None


def test_report_on_labeled_texts(documents, report_on):
    examples = [(text, str(number % 3)) for number, (text,) in enumerate(documents)]
    report = report_on(LabeledCorpus(MemoryCorpus(examples, columns=("text", "label"))))
    assert list(report["lengths"]["columns"]) == ["text"]
    assert [part["columns"] for part in report["vocabularies"]] == [["text"]]
    assert report["padding"]["default"]["examples"] == len(examples)


def test_report_is_deterministic_except_for_speeds(pairs, report_on):
    first, second = report_on(MemoryCorpus(pairs)), report_on(MemoryCorpus(pairs))
    assert first.pop("tokenizing")["sentences_per_second"] > 0
    assert second.pop("tokenizing") is None  # the cache existed already
    for report in (first, second):
        assert report["padding"].pop("iterating")["sentences_per_second"] > 0
    assert first == second


def test_progress_gets_stages_in_order(pairs, report_on):
    stages = []
    report_on(MemoryCorpus(pairs, name="my pairs"), progress=stages.append)
    assert stages[0] == "Reading my pairs"
    assert stages[1:] == ["Tokenizing", "Comparing bucket settings", "Searching for odd lines"]


# Files.

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


def test_saved_json_has_one_key_per_line(report, saved):
    text = saved[0].read_text(encoding="ascii")
    assert json.loads(text) == report
    assert re.findall(r'^"(\w+)": ', text, re.MULTILINE) == list(report)


def test_picture_has_colors_in_each_quarter(saved):
    image = pixels(saved[1].read_bytes())
    height, width, _ = image.shape
    assert height > 800
    assert width > 1200
    for rows in (slice(0, height // 2), slice(height // 2, height)):
        for columns in (slice(0, width // 2), slice(width // 2, width)):
            is_colored = np.ptp(image[rows, columns, :3], axis=-1) > 0.2
            assert is_colored.sum() > 1000


def test_picture_of_saved_json_is_identical(saved):
    assert draw_data_report(json.loads(saved[0].read_text())) == saved[1].read_bytes()


@pytest.mark.parametrize(
    "corpus", [MemoryCorpus([("a", "b")]), MemoryCorpus([("a text",), ("text",)], ("text",))]
)
def test_pictures_of_smallest_corpora(corpus, tmp_path):
    report = make_data_report(corpus, tmp_path / "caches", tokenizer="bytes")
    assert pixels(draw_data_report(report)).shape[1] > 1200


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("names", [["$x_$ 100%.de", "日本語.txt", "\udce4.txt"], ["n" * 250]])
def test_picture_with_any_file_name_in_its_title(report, names):
    files = [f"/some/where/{name}" for name in names]
    assert pixels(draw_data_report({**report, "files": files})).size


def test_earlier_report_is_replaced(report, tmp_path):
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
        ("report.png", "another picture"),
    ],
)
def test_other_file_is_never_replaced(report, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=f"{name}: exists and does not belong"):
        save_data_report(report, tmp_path)
    assert (tmp_path / name).read_text() == content


def test_require_report_directory_creates_nothing(tmp_path):
    require_report_directory(tmp_path / "some" / "folder")
    assert os.listdir(tmp_path) == []


def test_file_as_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match=r"/file is not a directory"):
        require_report_directory(tmp_path / "file" / "folder")


def test_directory_that_is_not_writable_is_refused():
    # pytest's own directory is closed to nobody.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        with as_nobody(), pytest.raises(UserError, match="permission denied"):
            require_report_directory(os.path.join(folder, "folder"))
