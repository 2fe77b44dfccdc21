"""CoNLL-U parsed in the graph, compared with the reader of training files."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data import DependencyTree
from keras_transformer.data.corpora.conllu import read_sentences
from keras_transformer.data.corpora.corpus import Tally
from keras_transformer.export.modules import parse_conllu
from keras_transformer.layers.tree_positions import word_depths


def line(number, form, head):
    return "\t".join([str(number), form, *"____", str(head), *"___"])


PARSE = tf.function(
    lambda strings: parse_conllu(strings, maximum_words=100),
    input_signature=[tf.TensorSpec([None], tf.string)],
)


def parsed(*strings):
    """Returns text, words and heads of each string."""
    found = PARSE(tf.constant(strings, tf.string, [len(strings)]))
    rows = zip(found.texts.numpy(), found.words.to_list(), found.heads.to_list(), strict=True)
    return [(text, [word.decode() for word in words], heads) for text, words, heads in rows]


DOGS = "\n".join([line(1, "Hunde", 2), line(2, "schlafen", 0), line(3, ".", 2)])
HOME = "\n".join(
    [
        "# sent_id = 7",
        "# text = Er geht zum Haus",
        line(1, "Er", 2),
        line(2, "geht", 0),
        line("3-4", "zum", "_"),
        line(3, "zu", 5),
        line(4, "dem", 5),
        line(5, "Haus", 2),
        line("5.1", "geht", "_"),
        "",
        "",
    ]
)


def test_parse_conllu_reads_sentences_and_plain_text():
    assert parsed(DOGS, "Guten Tag!", HOME, DOGS.replace("\n", "\r\n") + "\r\n") == [
        (b"Hunde schlafen .", ["Hunde", "schlafen", "."], [2, 0, 2]),
        (b"Guten Tag!", [], []),
        (b"Er geht zu dem Haus", ["Er", "geht", "zu", "dem", "Haus"], [2, 0, 5, 5, 2]),
        (b"Hunde schlafen .", ["Hunde", "schlafen", "."], [2, 0, 2]),
    ]
    assert parsed() == []


WORDS = st.text(min_size=1).map(lambda s: "".join(c for c in s if c not in "\t\n\r\0") or "_")


@given(words=st.lists(WORDS, min_size=1, max_size=8), data=st.data())
def test_parse_conllu_equals_read_sentences(words, data):
    order = data.draw(st.permutations(range(1, len(words) + 1)))
    heads = dict(zip(order, [0, *order], strict=False))  # a chain in any order
    tree = DependencyTree(tuple(words), tuple(heads[n] for n in range(1, len(words) + 1)))
    (read,) = read_sentences(tree.conllu.split("\n"), Tally())
    assert read == tree
    ((text, found, found_heads),) = parsed(tree.conllu)
    assert (text.decode(), tuple(found), tuple(found_heads)) == (tree.text, tree.words, tree.heads)


@pytest.mark.parametrize(
    ("string", "words", "heads"),
    [
        (line(1, "a", "_"), ["a"], [-1]),
        (line(1, "a", "-1"), ["a"], [-1]),
        (line(1, "a", "99999999999999999999"), ["a"], [-1]),
        (line(1, "a", "0x1"), ["a"], [-1]),
        (line(1, "a", 7), ["a"], [7]),  # out of range, for which the tree has no use
        (line(2, "a", 0), ["a"], [-1]),  # not the first
        (f"{DOGS}\n\n{line(1, 'b', 0)}", ["Hunde", "schlafen", ".", "b"], [2, 0, 2, -1]),
        (f"{line(1, 'a', 0)}\n{line(2, 'b', 1)[:-2]}", ["a"], [0]),  # cut
        ("1\ta\tb", [], []),
        ("a\tb", [], []),
        ("# a comment alone", [], []),
        ("", [], []),
        ("\n\n", [], []),
    ],
)
def test_parse_conllu_of_invalid_lines_raises_no_error(string, words, heads):
    assert parsed(string) == [(" ".join(words).encode() or string.encode(), words, heads)]


def test_word_depths_of_a_cycle_are_zero():
    found = PARSE(tf.constant([f"{line(1, 'a', 2)}\n{line(2, 'b', 1)}\n{line(3, 'c', 0)}"]))
    assert word_depths(found.heads.to_tensor(-1)).numpy().tolist() == [[0, 0, 1]]


def test_parse_conllu_replaces_invalid_utf8():
    string = line(1, "a?b", 0).encode().replace(b"?", b"\xff")
    found = PARSE(tf.constant([string, b"plain \xff"]))
    assert found.texts.numpy().tolist() == ["a\ufffdb".encode(), b"plain \xff"]


def test_parse_conllu_ignores_words_beyond_the_maximum():
    sentence = "\n".join(line(n, "a", n - 1) for n in range(1, 300))
    found = parse_conllu(tf.constant([sentence]), maximum_words=5)
    assert found.texts.numpy().tolist() == [b"a a a a a"]
    assert found.heads.to_list() == [[0, 1, 2, 3, 4]]
