"""Depths and distances in trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.corpora.conllu import DependencyTree, find_cycle


def tree(*heads):
    return DependencyTree(tuple(f"w{n}" for n in range(len(heads))), heads)


def test_a_sentence():
    """With the root "held", on which "Bush", "talk" and "Sharon" depend."""
    sentence = DependencyTree(("Bush", "held", "a", "talk", "with", "Sharon"), (2, 0, 4, 2, 6, 2))
    assert sentence.depths() == (2, 1, 3, 2, 3, 2)
    assert sentence.distances()[2].tolist() == [3, 2, 0, 1, 4, 3]  # from "a" to each


@st.composite
def random_trees(draw):
    """Heads of a tree whose words stand in any order."""
    size = draw(st.integers(1, 12))
    order = draw(st.permutations(range(1, size + 1)))
    heads = [0] * size
    for place, number in enumerate(order[1:], start=1):
        heads[number - 1] = order[draw(st.integers(0, place - 1))]
    return tree(*heads)


@given(random_trees())
def test_depths_and_distances_by_walking(sentence):
    def way_up(number):
        return [number, *way_up(sentence.heads[number - 1])] if number else []

    ways = [way_up(number) for number in range(1, len(sentence.words) + 1)]
    assert sentence.depths() == tuple(map(len, ways))
    expected = [[len(set(one) ^ set(other)) for other in ways] for one in ways]
    np.testing.assert_array_equal(sentence.distances(), expected)
    assert find_cycle(sentence.heads) == []


@pytest.mark.parametrize(
    ("heads", "cycle"), [((1,), [1]), ((2, 3, 2), [2, 3]), ((0, 1, 4, 5, 3), [3, 4, 5])]
)
def test_cycles(heads, cycle):
    assert find_cycle(heads) == cycle
    way = " → ".join(map(str, [*cycle, cycle[0]]))
    with pytest.raises(ValueError, match=f"The words {way} depend on each other"):
        tree(*heads)


def test_a_long_chain_takes_no_long_time():
    chain = tree(0, *range(1, 20_000))
    assert chain.depths()[-1] == 20_000
    assert find_cycle([20_000, *range(1, 20_000)])[:2] == [1, 20_000]


def test_what_is_no_tree():
    with pytest.raises(ValueError, match="a head for each of its words, and at least one; got 0 "):
        DependencyTree((), ())
    with pytest.raises(ValueError, match="got 2 words and 1 heads"):
        DependencyTree(("a", "b"), (0,))
    with pytest.raises(ValueError, match="The head of word 2 must be from 0 to 2; got 3"):
        tree(0, 3)
