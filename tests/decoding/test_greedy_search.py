"""Greedy search compared with the reference."""

import hypothesis
import hypothesis.strategies as st
import numpy as np

from keras_transformer.decoding import GreedySearch
from tests.decoding import reference
from tests.decoding.agreement import assert_agrees, assert_same_found, found_ids, row_of
from tests.decoding.reference import END, Rules
from tests.decoding.toy_models import (
    GROUPS,
    PHASES,
    PromptModel,
    TableModel,
    Tables,
    at_most,
    random_sources,
    random_tables,
    row_model,
)


# Each example is a whole search: shrinking a failing one would take minutes.
@hypothesis.settings(max_examples=10, phases=[hypothesis.Phase.generate])
@hypothesis.given(
    length_penalty=st.sampled_from([0.0, 0.6, 2.0]),
    maximum=st.integers(1, 9),
    minimum=st.integers(1, 4),
    end=st.sampled_from([-3.0, 0.0, 2.0]),
    shares_memory=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_greedy_search_equals_reference(length_penalty, maximum, minimum, end, shares_memory, seed):
    tables, sources = random_tables(seed, end=end), random_sources(seed, rows=24)
    minimum = min(minimum, maximum)
    rules = Rules(minimum=minimum, maximum=maximum)
    expected = []
    for source in sources:
        best, margin = reference.greedy_search(row_model(tables, source), rules, length_penalty)
        expected.append(([best], margin))
    search = GreedySearch(
        length_penalty=length_penalty, lengths=at_most(maximum, minimum), with_alignment=True
    )
    assert_agrees(search(TableModel(tables, shares_memory), source=sources), expected)


def test_greedy_search_of_prompts_equals_each_prompt_alone():
    tables, prompts = random_tables(2), [(), (4,), (5, 6, 4, 4, 1), (6, 5)]
    padded = np.zeros((4, 5), "int32")
    expected = []
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = prompt
        rules = Rules(prefix=prompt, maximum=7)
        best, margin = reference.greedy_search(row_model(tables), rules, 0.6)
        expected.append(([best], margin))
    search = GreedySearch(length_penalty=0.6, lengths=at_most(7))
    found = search(PromptModel(tables), prefix=padded)
    assert_agrees(found, expected)
    for row, prompt in enumerate(prompts[1:], start=1):
        alone = search(PromptModel(tables), prefix=[prompt])
        assert_same_found(alone, row_of(found, row))


def test_greedy_search_breaks_ties_by_lowest_id():
    """Padding and start ids, which are lower, are never chosen, however likely."""
    vocabulary = 7
    logits = np.zeros((GROUPS, *[vocabulary] * 3), "float32")
    logits[..., [0, 2]] = 9
    logits[..., [1, END]] = -9
    tables = Tables(logits, np.zeros((PHASES, vocabulary), "float32"), random_tables(0).attention)
    search = GreedySearch(lengths=at_most(4))
    found = search(TableModel(tables), source=[[5, END]])
    assert found_ids(found) == [[(4, 4, 4, END)]]
    # The probability of forbidden tokens is not redistributed.
    own = reference.log_softmax(logits[0, 0, 0])
    np.testing.assert_allclose(found.log_probability, [[3 * own[4] + own[END]]], rtol=1e-6)


def test_greedy_search_returns_empty_text_unless_below_minimum():
    tables, sources = random_tables(3, end=20.0), random_sources(3, rows=3)
    at_once = GreedySearch(lengths=at_most(5))(TableModel(tables), source=sources)
    assert found_ids(at_once) == [[(END,)]] * 3
    later = GreedySearch(lengths=at_most(5, minimum=3))(TableModel(tables), source=sources)
    assert all(len(row[0]) == 3 for row in found_ids(later))
