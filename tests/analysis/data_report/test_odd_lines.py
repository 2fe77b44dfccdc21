"""Longest and oddest lines."""

import pytest

from keras_transformer.analysis.data_report import odd_lines as module
from keras_transformer.analysis.data_report.odd_lines import describe_lines
from keras_transformer.data import MemoryCorpus, ParallelCorpus, tokenize_corpus
from keras_transformer.text import ByteTokenizer

USUAL = [(f"ein Satz mit der Nummer {n}", f"a sentence with number {n}") for n in range(200)]


@pytest.fixture
def describe(tmp_path):
    def describe(corpus):
        return describe_lines(corpus, tokenize_corpus(corpus, ByteTokenizer(), tmp_path / "caches"))

    return describe


def counts_of(lines):
    return {oddity["kind"]: oddity["count"] for oddity in lines["odd"]}


def listed(lines, kind):
    (oddity,) = (oddity for oddity in lines["odd"] if oddity["kind"] == kind)
    return [line["place"] for line in oddity["lines"]]


def test_normal_corpus_has_no_odd_lines(describe):
    assert set(counts_of(describe(MemoryCorpus(USUAL))).values()) == {0}


@pytest.mark.parametrize(
    ("kind", "pair"),
    [
        ("identical sides", ("wortwörtlich das gleiche hier", "wortwörtlich das gleiche hier")),
        ("length ratio", ("ja", "a very long answer to a very short question")),
        ("length ratio", ("eine sehr lange Frage, die ohne Antwort bleibt", "so")),
        ("other script", ("это предложение по-русски тут", "a sentence in another script")),
        ("few letters", ("ein Satz ganz ohne Antwort", "-- 12,5 %% (17) -- 3.1 !!")),
        ("hard to spell", ("ein Satz voller Zeichen", "🙈🙉🙊🙈🙉🙊🙈🙉🙊🙈🙉🙊")),
        ("wrong decoding", ("viele GrÃ¼ÃŸe an alle hier", "many greetings to everyone")),
        ("wrong decoding", ("ein Satz mit einem Loch hier", "a sentence with a hole \ufffd")),
    ],
)
def test_odd_line_is_found_with_its_place(describe, tmp_path, kind, pair):
    pairs = [*USUAL[:150], pair, *USUAL[150:]]
    source, target = tmp_path / "train.de", tmp_path / "train.en"
    source.write_text("".join(f"{german}\n" for german, _ in pairs), encoding="utf-8")
    target.write_text("".join(f"{english}\n" for _, english in pairs), encoding="utf-8")
    lines = describe(ParallelCorpus(source, target))
    assert listed(lines, kind) == [f"{target}:151"]
    (oddity,) = (oddity for oddity in lines["odd"] if oddity["kind"] == kind)
    assert oddity["lines"][0]["texts"] == {"source": pair[0], "target": pair[1]}
    assert oddity["lines"][0]["tokens"]["source"] == len(pair[0].encode())


def test_oddest_lines_are_first(describe):
    ratios = [("kurz", "word " * n) for n in (10, 30, 20, 15)]
    assert listed(describe(MemoryCorpus(USUAL + ratios, name="c")), "length ratio") == [
        "c:202",
        "c:203",
        "c:204",
    ]


def test_frequent_oddity_is_not_listed(describe):
    dates = [(f"der {n}. Mai im Jahr des Herrn", f"2026-05-{n:02}") for n in range(1, 32)]
    lines = describe(MemoryCorpus(dates))
    (oddity,) = (oddity for oddity in lines["odd"] if oddity["kind"] == "few letters")
    assert (oddity["count"], oddity["is_usual"], oddity["lines"]) == (31, True, [])


def test_scripts_of_one_language_are_not_odd(describe):
    texts = [("これは日本語の文です。",)] * 150 + [("コンピューター",)]
    assert counts_of(describe(MemoryCorpus(texts, columns=("text",))))["other script"] == 0


def test_longest_lines_are_sorted_by_longer_side(describe):
    pairs = [*USUAL, ("x" * 90, "short"), ("short", "y" * 100), ("z" * 80, "z" * 80)]
    longest = describe(MemoryCorpus(pairs, name="c"))["longest"]
    assert [line["place"] for line in longest[:3]] == ["c:202", "c:201", "c:203"]
    assert longest[0]["tokens"] == {"source": 5, "target": 100}
    assert len(longest) == module.LONGEST_LISTED


def test_long_text_is_shortened(describe):
    line = describe(MemoryCorpus([("a" * 5000,)], columns=("text",)))["longest"][0]
    assert line["texts"]["text"] == "a" * 199 + "…"
    assert line["tokens"] == {"text": 5000}


def test_large_corpus_is_sampled_except_for_longest_lines(describe, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 60)
    pairs = [*USUAL, ("Я" * 20, "x" * 300)]  # 201 pairs: every fourth is examined, this one too
    lines = describe(MemoryCorpus([*pairs, ("Я" * 20, "x" * 400)], name="c"))
    assert lines["sample"] == {"examples": 51, "every": 4}
    assert listed(lines, "length ratio") == ["c:201"]
    assert [line["place"] for line in lines["longest"][:2]] == ["c:202", "c:201"]


def test_tokens_per_word_and_per_character(describe):
    lines = describe(MemoryCorpus([("zwei Wörter", "two words"), ("eins", "one")]))
    assert lines["columns"]["source"] == {
        "tokens_per_word": pytest.approx(16 / 3),  # "ö" has two bytes
        "characters_per_token": pytest.approx(15 / 16),
    }
