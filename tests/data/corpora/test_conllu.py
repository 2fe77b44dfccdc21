"""CoNLL-U: reading of sentences, pairs with a parsed source, dependency trees."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import ConlluCorpus, DependencyTree, ReadingRules
from keras_transformer.data.corpora.conllu import find_cycle


def lines(*words):
    """Returns lines of CoNLL-U from "ID FORM HEAD", and comments unchanged."""
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
    """Returns a function that writes the two files and makes the corpus."""

    def make(parsed, targets, **rules):
        source, target = tmp_path / "de.conllu", tmp_path / "en.txt"
        source.write_bytes(parsed if isinstance(parsed, bytes) else parsed.encode())
        target.write_text("".join(text + "\n" for text in targets))
        return ConlluCorpus(source, target, ReadingRules(**rules))

    return make


def test_corpus_yields_words_and_trees(corpus):
    """Multiword tokens are replaced by their words, and empty nodes are in no tree."""
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
    ids=["regular", "no final blank line", "additional blank lines", "CRLF", "gzip"],
)
def test_sentences_end_with_blank_line_or_file(corpus, parsed):
    assert len(list(corpus(parsed, ["a", "b"]))) == 2


def test_word_may_contain_spaces(corpus):
    parsed = "\t".join(["1", "20 000", *"____", "0", *"___"]) + "\n"
    (tree,) = corpus(parsed, ["20,000"]).trees()
    assert tree.words == ("20 000",)


@pytest.mark.parametrize(
    ("parsed", "line", "message"),
    [
        (DOGS + "4\tda\n", 5, "2 columns, but CoNLL-U has 10"),
        (DOGS + "4 da\n", 5, "1 column, but CoNLL-U has 10"),
        (DOGS.replace("Hunde\t_", "Hunde\t"), 2, "LEMMA is empty"),
        (lines("1 a 0", "3 b 1"), 2, "ID must be 2, the next word; got 3"),
        (lines("1 a 0", "1 b 0"), 2, "ID must be 2, the next word; got 1"),
        (
            lines("x a 0"),
            1,
            "ID must be a number (4), a range (4-5) or an empty node (4.1); got 'x'",
        ),
        (
            lines("01 a 0"),
            1,
            "ID must be a number (4), a range (4-5) or an empty node (4.1); got '01'",
        ),
        (lines("1 a _"), 1, "HEAD must be the number of a word, or 0 for the root; got '_'"),
        (lines("1 a -1"), 1, "HEAD must be the number of a word, or 0 for the root; got '-1'"),
        (lines("1 a 3", "2 b 0"), 1, "HEAD of word 1 must be from 0 to 2; got 3"),
        (lines("1 a 1"), 1, "1 → 1"),
        (lines("1 a 0", "2 b 3", "3 c 2"), 2, "2 → 3 → 2"),
        (lines("1 a 0", "2 b 0"), 2, "word 2 is a second root"),
        (lines("1 a 0", "# late"), 2, "comment inside a sentence"),
        (lines("# alone"), 1, "sentence without words"),
        (lines("2-3 ab _"), 1, "the next word, 1, and contain two or more"),
        (lines("1-1 ab _"), 1, "the next word, 1, and contain two or more"),
        (lines("1-3 x _", "1 a 0", "2-3 y _"), 3, "no other range; got 2-3"),
        (lines("1-3 abc _", "1 a 0", "2 b 1"), 3, "ends with word 2, inside the range up to 3"),
        (lines("1 a 0", "0.1 e _"), 2, "empty node must be 1.1 here; got 0.1"),
        (lines("1 a 0", "1.2 e _"), 2, "empty node must be 1.1 here; got 1.2"),
        (b"1\t\xff\n", 1, "not UTF-8"),
    ],
)
def test_flaw_raises_with_its_line(corpus, tmp_path, parsed, line, message):
    with pytest.raises(UserError) as caught:
        list(corpus(parsed, ["target"]))
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/de.conllu:{line}:")
    assert message in said
    assert "\n" not in said


def test_sentence_with_flaw_is_skipped_with_its_target(corpus):
    parsed = "\n".join([DOGS, lines("1 a 7", "2 b 0"), HOME, DOGS])
    found = corpus(parsed, ["one", "two", "three", " "], on_bad_line="skip")
    assert [target for _, target in found] == ["one", "three"]
    assert [len(tree.words) for tree in found.trees()] == [3, 5]
    report = found.check()
    assert (report.examples, report.bad_lines, report.blank_lines) == (2, 1, 1)


def test_too_long_sentences_are_skipped(corpus):
    """No line has more than 24 characters, but the second text has 29."""
    longer = lines(*(f"{n} Worte {n - 1}" for n in range(1, 6)))
    found = corpus(f"{HOME}\n{longer}", ["one", "two"], max_characters=24)
    assert [target for _, target in found] == ["one"]
    assert found.check().too_long == 1
    found = corpus(f"{HOME}\n{longer}", ["one", "two"], max_characters=29)
    assert len(list(found)) == 2


@pytest.mark.parametrize(("targets", "count"), [(["a"], 1), (["a", "b", "c"], 3)])
def test_different_counts_raise_with_both(corpus, tmp_path, targets, count):
    message = rf"{tmp_path}/de.conllu: sentence count 2, but {tmp_path}/en.txt: line count {count}"
    with pytest.raises(UserError, match=message):
        list(corpus(f"{DOGS}\n{HOME}", targets))


# Dependency trees.


def make_tree(*heads):
    return DependencyTree(tuple(f"w{n}" for n in range(len(heads))), heads)


def test_tree_of_known_sentence():
    """The root is "held", on which "Bush", "talk" and "Sharon" depend."""
    sentence = DependencyTree(("Bush", "held", "a", "talk", "with", "Sharon"), (2, 0, 4, 2, 6, 2))
    assert sentence.depths() == (2, 1, 3, 2, 3, 2)
    assert sentence.distances()[2].tolist() == [3, 2, 0, 1, 4, 3]  # from "a" to each


@st.composite
def random_trees(draw):
    """Draws a tree whose words are in any order."""
    size = draw(st.integers(1, 12))
    order = draw(st.permutations(range(1, size + 1)))
    heads = [0] * size
    for index, number in enumerate(order[1:], start=1):
        heads[number - 1] = order[draw(st.integers(0, index - 1))]
    return make_tree(*heads)


@given(random_trees())
def test_depths_and_distances_equal_those_of_walking(sentence):
    def path_up(number):
        return [number, *path_up(sentence.heads[number - 1])] if number else []

    paths = [path_up(number) for number in range(1, len(sentence.words) + 1)]
    assert sentence.depths() == tuple(map(len, paths))
    expected = [[len(set(one) ^ set(other)) for other in paths] for one in paths]
    np.testing.assert_array_equal(sentence.distances(), expected)
    assert find_cycle(sentence.heads) == []


@pytest.mark.parametrize(
    ("heads", "cycle"), [((1,), [1]), ((2, 3, 2), [2, 3]), ((0, 1, 4, 5, 3), [3, 4, 5])]
)
def test_cycle_is_found_and_refused(heads, cycle):
    assert find_cycle(heads) == cycle
    way = " → ".join(map(str, [*cycle, cycle[0]]))
    with pytest.raises(ValueError, match=f"words {way} .* cycle"):
        make_tree(*heads)


def test_depths_of_long_chain():
    chain = make_tree(0, *range(1, 20_000))
    assert chain.depths()[-1] == 20_000
    assert find_cycle([20_000, *range(1, 20_000)])[:2] == [1, 20_000]


def test_invalid_trees_are_refused():
    with pytest.raises(ValueError, match=r"at least one word.* got 0 words"):
        DependencyTree((), ())
    with pytest.raises(ValueError, match="got 2 words and 1 heads"):
        DependencyTree(("a", "b"), (0,))
    with pytest.raises(ValueError, match="HEAD of word 2 must be from 0 to 2; got 3"):
        make_tree(0, 3)
