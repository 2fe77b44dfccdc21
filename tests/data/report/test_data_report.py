"""The data report against counts that are made by hand."""

import json
import statistics

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report.report import make_data_report
from keras_transformer.analysis.data_report.statistics import BUCKET_SETTINGS
from keras_transformer.data import LabeledCorpus, MemoryCorpus, PairBatches, choose_buckets

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
        assert json.loads(json.dumps(report)) == report  # nothing but JSON's types
        assert set(report) == KEYS
        return report

    return report_on


def lengths_in_bytes(examples, column):
    return [len(example[column].encode()) for example in examples]


def test_lengths_are_those_of_the_texts(pairs, report_on):
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


def test_one_long_line_does_not_widen_the_bins(report_on):
    report = report_on(MemoryCorpus([("abc", "abcd")] * 2000 + [("a" * 200, "b")]))
    histogram = report["lengths"]["histogram"]
    assert histogram["bin_width"] == 1
    assert histogram["counts"] == {"source": [0, 0, 2000, 0, 1], "target": [1, 0, 0, 2000, 0]}


def test_padding_is_that_of_the_batches(pairs, make_cache, report_on):
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


def test_what_is_left_out_is_warned_of(pairs, report_on):
    report = report_on(MemoryCorpus(pairs), max_length=35)
    skipped = report["padding"]["default"]["skipped"]
    assert report["warnings"] == [
        f"{skipped:,} examples have more than 35 tokens with END and are left out of the batches. "
        "Split them, or raise `max_length`."
    ]


def test_overlap_is_counted_and_warned_of(pairs, report_on):
    validation = MemoryCorpus([*pairs[:7], ("not", "there")])
    report = report_on(MemoryCorpus(pairs), validation=validation)
    assert report["overlap"] == 7
    assert report["validation"]["examples"] == 8
    assert "7 of 8 validation examples are in the training corpus" in report["warnings"][0]


def test_tokens_that_only_validation_has(report_on):
    validation = MemoryCorpus([("abc", "xyz")])
    report = report_on(MemoryCorpus([("aaa", "bbb")]), validation=validation)
    assert report["vocabularies"][0]["validation_tokens_unseen_share"] == pytest.approx(4 / 6)


def test_validation_of_another_kind_is_refused(pairs, documents, report_on):
    with pytest.raises(UserError, match="has the columns text, but the training corpus has source"):
        report_on(MemoryCorpus(pairs), validation=MemoryCorpus(documents, columns=("text",)))


def test_one_pair_is_enough(report_on):
    report = report_on(MemoryCorpus([("ja", "yes")]), tokenizer="sentencepiece")
    assert report["corpus"]["examples"] == 1
    assert report["padding"]["default"]["batches"] == 1
    assert "There is only one example." in report["warnings"]
    assert any("fewer than the 8000 asked for" in warning for warning in report["warnings"])


def test_documents_are_truncated_and_packed(documents, report_on):
    report = report_on(MemoryCorpus(documents, columns=("text",)), max_length=64, tokens=256)
    too_long = sum(len(text) + 1 > 64 for (text,) in documents)
    assert report["padding"]["default"]["truncated"] == too_long > 0
    assert report["padding"]["default"]["skipped"] == 0
    *_, packed = report["padding"]["settings"]
    assert packed["packed_width"] == 256
    assert 0.9 < packed["efficiency"] <= 1
    assert report["lengths"]["joint_histogram"] is None
    assert report["lines"]["target_tokens_per_source_token"] is None


def test_labeled_texts(documents, report_on):
    examples = [(text, str(number % 3)) for number, (text,) in enumerate(documents)]
    report = report_on(LabeledCorpus(MemoryCorpus(examples, columns=("text", "label"))))
    assert list(report["lengths"]["columns"]) == ["text"]
    assert [part["columns"] for part in report["vocabularies"]] == [["text"]]
    assert report["padding"]["default"]["examples"] == len(examples)


def test_all_but_the_speeds_is_the_same_each_time(pairs, report_on):
    first, second = report_on(MemoryCorpus(pairs)), report_on(MemoryCorpus(pairs))
    assert first.pop("tokenizing")["sentences_per_second"] > 0
    assert second.pop("tokenizing") is None  # the cache was there already
    for report in (first, second):
        assert report["padding"].pop("iterating")["sentences_per_second"] > 0
    assert first == second


def test_stages_are_told_in_order(pairs, report_on):
    stages = []
    report_on(MemoryCorpus(pairs, name="my pairs"), progress=stages.append)
    assert stages[0] == "Reading my pairs"
    assert stages[1:] == ["Tokenizing", "Trying bucket settings", "Looking for odd lines"]
