"""JSON lines."""

import json

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import JsonLinesCorpus, ReadingRules

PAIRS = {"source": "de", "target": "en"}
DOCUMENTS = {"text": "text"}
SKIP = ReadingRules(on_bad_line="skip")


@pytest.fixture
def write(tmp_path):
    def write(*lines):
        path = tmp_path / "corpus.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def test_pairs_by_keys(write):
    path = write(
        '{"en": "one", "de": "eins", "other": [1, null]}', '{"de": "größer", "en": "more"}'
    )
    corpus = JsonLinesCorpus(path, PAIRS)
    assert corpus.columns == ("source", "target")
    assert list(corpus) == [("eins", "one"), ("größer", "more")]


def test_documents_may_contain_line_feeds(write):
    text = 'first\nsecond\twith tab, \u2028 and "quotes" 😀'
    path = write(json.dumps({"text": text}), json.dumps({"text": text}, ensure_ascii=False))
    corpus = JsonLinesCorpus(path, DOCUMENTS)
    assert corpus.columns == ("text",)
    assert list(corpus) == [(text,)] * 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"de": "a", "en": ', "is not JSON: Expecting value: line 1 column 19 (char 18)"),
        ("plain text", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('["a", "b"]', 'is not a JSON object: \'["a", "b"]\''),
        ('{"de": "a"}', "no key 'en' for the target; found 'de'"),
        ("{}", "no key 'de' for the source; found none"),
        ('{"de": "a", "en": null}', "'en' must be a string; got null"),
        ('{"de": 7, "en": "b"}', "'de' must be a string; got 7"),
        ('{"de": "a", "en": ["b"]}', "'en' must be a string; got [\"b\"]"),
        ('{"de": "\\ud800", "en": "b"}', "'de' contains half of a surrogate pair"),
        ("[" * 100_000, "nested too deeply"),
        (f'{{"de": {"1" * 5_000}}}', "is not JSON: Exceeds the limit"),
    ],
    ids=lambda value: value[:20],
)
def test_bad_line_raises_or_is_skipped(write, line, problem):
    path = write('{"de": "eins", "en": "one"}', line, '{"de": "drei", "en": "three"}')
    with pytest.raises(UserError) as caught:
        JsonLinesCorpus(path, PAIRS).check()
    assert caught.value.where == f"{path}:2"
    assert problem in caught.value.problem
    corpus = JsonLinesCorpus(path, PAIRS, SKIP)
    assert list(corpus) == [("eins", "one"), ("drei", "three")]
    assert corpus.check().bad_lines == 1


def test_blank_lines_and_texts_are_skipped(write):
    path = write('{"text": "a"}', "", '{"text": " \\n"}', '{"text": ""}', '{"text": "b"}')
    report = JsonLinesCorpus(path, DOCUMENTS).check()
    assert (report.examples, report.blank_lines) == (2, 3)


def test_escaped_nul_is_removed(write):
    corpus = JsonLinesCorpus(write('{"text": "a\\u0000b"}'), DOCUMENTS)
    assert list(corpus) == [("ab",)]
    assert corpus.check().nul_characters == 1


def test_limit_is_for_text_not_line(write):
    escaped = json.dumps({"text": "😀" * 50, "more": "x" * 10_000})
    corpus = JsonLinesCorpus(
        write(escaped, '{"text": "' + "x" * 51 + '"}'), DOCUMENTS, ReadingRules(max_characters=50)
    )
    assert list(corpus) == [("😀" * 50,)]
    assert corpus.check().too_long == 1


def test_integer_labels_need_no_quotes(write):
    path = write('{"text": "good", "label": 1}', '{"text": "bad", "label": "0"}')
    corpus = JsonLinesCorpus(path, {"label": "label", "text": "text"})
    assert corpus.columns == ("text", "label")
    assert list(corpus) == [("good", "1"), ("bad", "0")]
    with pytest.raises(UserError, match="'label' must be a string; got true"):
        list(
            JsonLinesCorpus(
                write('{"text": "a", "label": true}'), {"text": "text", "label": "label"}
            )
        )


def test_invalid_keys_are_refused(write):
    with pytest.raises(UserError, match=r"`keys` must be .*got \('source',\)"):
        JsonLinesCorpus(write("{}"), {"source": "de"})
