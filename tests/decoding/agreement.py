"""Comparison of the result of a search with that of the reference."""

import numpy as np

from keras_transformer.decoding import BeamSearch, GreedySearch, LengthLimits, SamplingSearch
from tests.decoding import reference
from tests.decoding.reference import DEFAULT, PADDING, Rules
from tests.decoding.toy_models import row_model

# A decision between two numbers that are closer than this may differ in float32.
NEAR_TIE = 1e-4


def found_ids(found):
    """Returns the ids of each hypothesis of each row, without the padding."""
    return [
        [tuple(ids[:length]) for ids, length in zip(*row, strict=True)]
        for row in zip(found.ids.numpy().tolist(), found.lengths.numpy(), strict=True)
    ]


def row_of(found, row):
    """Returns one row of a result as a batch of one."""
    return type(found)(*(part if part is None else part[row : row + 1] for part in found))


def assert_well_formed(found, hypotheses, padding=PADDING):
    """Checks shapes, types, padding, order and missing hypotheses."""
    ids, lengths = found.ids.numpy(), found.lengths.numpy()
    scores, log_probabilities = found.score.numpy(), found.log_probability.numpy()
    assert ids.dtype == lengths.dtype == "int32"
    assert scores.dtype == log_probabilities.dtype == "float32"
    assert ids.ndim == 3
    assert ids.shape[1] == hypotheses
    assert ids.shape[:2] == lengths.shape == scores.shape == log_probabilities.shape
    is_token = np.arange(ids.shape[2]) < lengths[..., None]
    assert np.all(ids[~is_token] == padding)
    assert np.all(ids[is_token] != padding)
    np.testing.assert_array_equal(scores > -np.inf, lengths > 0)
    assert not np.isnan(log_probabilities).any()
    assert np.all(scores[:, :-1] >= scores[:, 1:])


def assert_agrees(found, expected, hypotheses=1, padding=PADDING):
    """Compares a result with the reference's `[(hypotheses, margin)]`, one for each row."""
    assert_well_formed(found, hypotheses, padding)
    assert len(found.ids) == len(expected)
    all_ids = found_ids(found)
    alignment = None if found.alignment is None else found.alignment.numpy()
    near_ties = 0
    for row, (wanted, margin) in enumerate(expected):
        if margin < NEAR_TIE:
            near_ties += 1
            continue
        missing = hypotheses - len(wanted)
        assert all_ids[row] == [hypothesis.ids for hypothesis in wanted] + [()] * missing
        for name in ("score", "log_probability"):
            values = getattr(found, name)[row].numpy()[: len(wanted)]
            wanted_values = [getattr(hypothesis, name) for hypothesis in wanted]
            np.testing.assert_allclose(values, wanted_values, rtol=1e-5, atol=1e-4, err_msg=name)
        if alignment is not None:
            for place, hypothesis in enumerate(wanted):
                places = alignment[row, place, : len(hypothesis.ids)]
                assert places.tolist() == hypothesis.alignment
    assert near_ties <= len(expected) / 4  # otherwise the comparison shows nothing


def assert_follows(found, models, rules_of_rows, length_penalty):
    """Checks that every token was allowed, and every score by the reference.

    For random draws, which the reference cannot repeat. `models` and `rules_of_rows` have one entry
    for each row.
    """
    for row, (model, rules) in enumerate(zip(models, rules_of_rows, strict=True)):
        wanted = [
            reference.follow(ids, model, rules, length_penalty) for ids in found_ids(found)[row]
        ]
        assert all(reference.is_over(each, rules) for each in wanted)
        for name in ("score", "log_probability"):
            wanted_values = [getattr(each, name) for each in wanted]
            np.testing.assert_allclose(getattr(found, name)[row], wanted_values, atol=1e-4)
        if found.alignment is not None:
            for each, places in zip(wanted, found.alignment[row].numpy().tolist(), strict=True):
                assert places[: len(each.ids)] == each.alignment


def assert_same_found(found, again, atol=1e-5):
    """Checks that two results of one search are equal but for their padding."""
    assert found_ids(found) == found_ids(again)
    np.testing.assert_allclose(found.score, again.score, atol=atol)
    np.testing.assert_allclose(found.log_probability, again.log_probability, atol=atol)
    assert (found.alignment is None) == (again.alignment is None)
    if found.alignment is not None:
        lengths = found.lengths.numpy()
        for row, place in np.ndindex(lengths.shape):
            length = lengths[row, place]
            first, second = (x.alignment[row, place, :length] for x in (found, again))
            np.testing.assert_array_equal(first, second)


# --- each search beside the reference -------------------------------------------------------------


def check_greedy(model, tables, sources, constraints, lengths, prefixes, special=DEFAULT):
    expected = []
    rules_of_rows = rows_of_rules(constraints, lengths, sources, prefixes, special)
    for source, rules in zip(sources, rules_of_rows, strict=True):
        best, margin = reference.greedy_search(row_model(tables, source, special), rules, 0.6)
        expected.append(([best], margin))
    search = GreedySearch(length_penalty=0.6, **limited(constraints, lengths))
    found = search(model, **inputs(sources, prefixes, special))
    assert_agrees(found, expected, padding=special.padding)


def check_beam(model, tables, sources, constraints, lengths, prefixes, special=DEFAULT):
    settings = {"beams": 3, "n_best": 2, "length_penalty": 0.6}
    if sources[0] is not None:
        settings["coverage_penalty"] = 0.2
    rules_of_rows = rows_of_rules(constraints, lengths, sources, prefixes, special)
    expected = [
        reference.beam_search(row_model(tables, source, special), rules, **settings)
        for source, rules in zip(sources, rules_of_rows, strict=True)
    ]
    search = BeamSearch(**limited(constraints, lengths), **settings)
    found = search(model, **inputs(sources, prefixes, special))
    assert_agrees(found, expected, hypotheses=2, padding=special.padding)


def check_sampling(model, tables, sources, constraints, lengths, prefixes, special=DEFAULT):
    search = SamplingSearch(samples=4, length_penalty=0.6, **limited(constraints, lengths))
    found = search(model, **inputs(sources, prefixes, special), seed=4)
    models = [row_model(tables, source, special) for source in sources]
    rules_of_rows = rows_of_rules(constraints, lengths, sources, prefixes, special)
    assert_well_formed(found, 4, special.padding)
    assert_follows(found, models, rules_of_rows, 0.6)


#: Functions that compare a search with the reference, by the name of the search.
CHECKS = {"greedy": check_greedy, "beam": check_beam, "sampling": check_sampling}


def limited(constraints, lengths):
    """Returns the settings of a search; `constraints` are pairs of ours and the reference's."""
    return {
        "lengths": LengthLimits(**{"maximum_ratio": None, **lengths}),
        "constraints": tuple(each for each, _ in constraints),
    }


def rows_of_rules(constraints, lengths, sources, prefixes, special):
    """Yields the reference's rules of each row."""
    for source, prefix in zip(sources, prefixes, strict=True):
        if source is None:
            tokens = len(prefix)
        else:
            tokens = np.count_nonzero(np.not_equal(source, special.padding))
        minimum, maximum = reference.bounds(tokens, **lengths)
        yield Rules(tuple(each for _, each in constraints), prefix, minimum, maximum, special)


def inputs(sources, prefixes, special):
    """Returns the arguments of a search."""
    given = {"prefix": padded(prefixes, special.padding) if any(prefixes) else None}
    return given if sources[0] is None else {"source": np.array(sources), **given}


def padded(rows, padding=PADDING, length=None):
    """Returns rows of ids as an array."""
    array = np.full((len(rows), length or max(map(len, rows))), padding, "int32")
    for row, ids in zip(array, rows, strict=True):
        row[: len(ids)] = ids
    return array
