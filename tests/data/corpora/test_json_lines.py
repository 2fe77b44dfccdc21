"""JSON lines, right and wrong."""

import json
import re

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


def test_pairs(write):
    path = write(
        '{"en": "one", "de": "eins", "other": [1, null]}', '{"de": "größer", "en": "more"}'
    )
    corpus = JsonLinesCorpus(path, PAIRS)
    assert corpus.columns == ("source", "target")
    assert list(corpus) == [("eins", "one"), ("größer", "more")]


def test_documents_may_have_several_lines(write):
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
        ('{"de": "\\ud800", "en": "b"}', "'de' holds half of a surrogate pair"),
        ("[" * 100_000, "the JSON is nested too deep"),
        (f'{{"de": {"1" * 5_000}}}', "is not JSON: Exceeds the limit"),
    ],
    ids=lambda value: value[:20],
)
def test_bad_lines(write, line, problem):
    path = write('{"de": "eins", "en": "one"}', line, '{"de": "drei", "en": "three"}')
    message = f"{path}:2: {problem}"
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        JsonLinesCorpus(path, PAIRS).check()
    assert str(caught.value).endswith(
        'Put the line right, or leave such lines out with on_bad_line="skip".'
    )
    corpus = JsonLinesCorpus(path, PAIRS, SKIP)
    assert list(corpus) == [("eins", "one"), ("drei", "three")]
    assert corpus.check().bad_lines == 1


def test_blank_lines_and_texts(write):
    path = write('{"text": "a"}', "", '{"text": " \\n"}', '{"text": ""}', '{"text": "b"}')
    report = JsonLinesCorpus(path, DOCUMENTS).check()
    assert (report.examples, report.blank_lines) == (2, 3)


def test_escaped_nul(write):
    corpus = JsonLinesCorpus(write('{"text": "a\\u0000b"}'), DOCUMENTS)
    assert list(corpus) == [("ab",)]
    assert corpus.check().nul_characters == 1


def test_the_limit_is_on_the_text_not_on_the_line(write):
    escaped = json.dumps({"text": "😀" * 50, "more": "x" * 10_000})
    corpus = JsonLinesCorpus(
        write(escaped, '{"text": "' + "x" * 51 + '"}'), DOCUMENTS, ReadingRules(max_characters=50)
    )
    assert list(corpus) == [("😀" * 50,)]
    assert corpus.check().too_long == 1


def test_integer_labels_without_quotes(write):
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


def test_impossible_keys(write):
    with pytest.raises(ValueError, match=r"The columns must be one of .*; got \('source',\)"):
        JsonLinesCorpus(write("{}"), {"source": "de"})
