"""CoNLL-U beside a text file."""

import gzip
import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import ConlluCorpus, ReadingRules


def lines(*words):
    """Lines of CoNLL-U from "ID FORM HEAD", and comments as they are."""
    return "".join(
        word + "\n" if word.startswith("#") else "\t".join(columns(*word.split())) + "\n"
        for word in words
    )


def columns(identifier, form, head):
    return [identifier, form, *"____", head, *"___"]


DOGS = lines("# text = Hunde schlafen.", "1 Hunde 2", "2 schlafen 0", "3 . 2")
HOME = lines(
    "1 Er 2", "2 geht 0", "3-4 zum _", "3 zu 5", "4 dem 5", "5 Haus 2", "5.1 geht _", "5.2 er _"
)


@pytest.fixture
def corpus(tmp_path):
    """A function that writes the two files and makes the corpus."""

    def make(parsed, targets, **rules):
        source, target = tmp_path / "de.conllu", tmp_path / "en.txt"
        source.write_bytes(parsed if isinstance(parsed, bytes) else parsed.encode())
        target.write_text("".join(text + "\n" for text in targets))
        return ConlluCorpus(source, target, ReadingRules(**rules))

    return make


def test_words_and_trees(corpus):
    """Multiword tokens give way to their words, and empty nodes are in no tree."""
    found = corpus(f"{DOGS}\n{HOME}\n", ["Dogs sleep.", "He goes home"])
    assert found.columns == ("source", "target")
    assert list(found) == [
        ("Hunde schlafen .", "Dogs sleep."),
        ("Er geht zu dem Haus", "He goes home"),
    ]
    assert [tree.heads for tree in found.trees()] == [(2, 0, 2), (2, 0, 5, 5, 2)]
    assert [tree.depths() for tree in found.trees()] == [(2, 1, 2), (2, 1, 3, 3, 2)]
    assert found.check().examples == 2


@pytest.mark.parametrize(
    "parsed",
    [
        f"{DOGS}\n{DOGS}\n",
        f"{DOGS}\n{DOGS}",
        f"\n{DOGS}\n\n\n{DOGS}".rstrip("\n"),
        f"{DOGS}\n{DOGS}\n".replace("\n", "\r\n"),
        gzip.compress(f"{DOGS}\n{DOGS}".encode()),
    ],
    ids=["as it should be", "no last blank", "blanks too many", "CRLF", "gzip"],
)
def test_ends_of_sentences(corpus, parsed):
    assert len(list(corpus(parsed, ["a", "b"]))) == 2


def test_a_word_may_hold_spaces(corpus):
    parsed = "\t".join(["1", "20 000", *"____", "0", *"___"]) + "\n"
    (tree,) = corpus(parsed, ["20,000"]).trees()
    assert tree.words == ("20 000",)


@pytest.mark.parametrize(
    ("parsed", "line", "message"),
    [
        (DOGS + "4\tda\n", 5, "2 columns, but CoNLL-U has 10. Put one tab between two columns"),
        (DOGS + "4 da\n", 5, "1 column, but CoNLL-U has 10"),
        (DOGS.replace("Hunde\t_", "Hunde\t"), 2, "LEMMA is empty. Write _ for what is not known"),
        (lines("1 a 0", "3 b 1"), 2, "the ID must be 2, the next word; got 3. Count the words of"),
        (lines("1 a 0", "1 b 0"), 2, "the ID must be 2, the next word; got 1. Count the words of"),
        (lines("x a 0"), 1, "the ID must be a number (4), a range (4-5) or an empty node (4.1); "),
        (lines("01 a 0"), 1, "the ID must be a number (4), a range (4-5) or an empty node (4.1); "),
        (lines("1 a _"), 1, "the HEAD must be the number of a word, or 0 for the root; got '_'"),
        (lines("1 a -1"), 1, "the HEAD must be the number of a word, or 0 for the root; got '-1'"),
        (lines("1 a 3", "2 b 0"), 1, "the HEAD is 3, but the sentence has 2 words. Put it right"),
        (lines("1 a 1"), 1, "the words 1 → 1 depend on each other in a circle"),
        (lines("1 a 0", "2 b 3", "3 c 2"), 2, "the words 2 → 3 → 2 depend on each other in a cir"),
        (lines("1 a 0", "2 b 0"), 2, "word 2 is a second root beside word 1. A sentence has one"),
        (lines("1 a 0", "# late"), 2, "a comment within a sentence. Put it before the words"),
        (lines("# alone"), 1, "a sentence without words. Take its comments out"),
        (lines("2-3 ab _"), 1, "the range must begin with the next word, 1, and hold two or more"),
        (lines("1-1 ab _"), 1, "the range must begin with the next word, 1, and hold two or more"),
        (lines("1-3 x _", "1 a 0", "2-3 y _"), 3, "none of them in another range; got 2-3"),
        (lines("1-3 abc _", "1 a 0", "2 b 1"), 3, "the sentence ends with word 2, within the rang"),
        (lines("1 a 0", "0.1 e _"), 2, "the empty node must be 1.1 here; got 0.1. Put it right"),
        (lines("1 a 0", "1.2 e _"), 2, "the empty node must be 1.1 here; got 1.2. Put it right"),
        (b"1\t\xff\n", 1, "not UTF-8"),
    ],
)
def test_flaws_have_a_line(corpus, tmp_path, parsed, line, message):
    with pytest.raises(UserError) as caught:
        list(corpus(parsed, ["target"]))
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/de.conllu:{line}:")
    assert message in said
    assert "\n" not in said


def test_a_flaw_takes_its_target_along(corpus):
    parsed = "\n".join([DOGS, lines("1 a 7", "2 b 0"), HOME, DOGS])
    found = corpus(parsed, ["one", "two", "three", " "], on_bad_line="skip")
    assert [target for _, target in found] == ["one", "three"]
    assert [len(tree.words) for tree in found.trees()] == [3, 5]
    report = found.check()
    assert (report.examples, report.bad_lines, report.blank_lines) == (2, 1, 1)


def test_too_long_sentences_are_left_out(corpus):
    """No line of them has more than 24 characters, but the second text has 29."""
    longer = lines(*(f"{n} Worte {n - 1}" for n in range(1, 6)))
    found = corpus(f"{HOME}\n{longer}", ["one", "two"], max_characters=24)
    assert [target for _, target in found] == ["one"]
    assert found.check().too_long == 1
    found = corpus(f"{HOME}\n{longer}", ["one", "two"], max_characters=29)
    assert len(list(found)) == 2


@pytest.mark.parametrize(("targets", "count"), [(["a"], 1), (["a", "b", "c"], 3)])
def test_counts_differ(corpus, tmp_path, targets, count):
    message = (
        f"{tmp_path}/de.conllu: sentence count 2, but {tmp_path}/en.txt: line count {count}. "
        "Sentence n of one must go with line n of the other: find what is missing."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        list(corpus(f"{DOGS}\n{HOME}", targets))
